"""A Spark application on Kubernetes: its driver and its executors.

Source: apache/spark, Constants of org.apache.spark.deploy.k8s. The driver makes the
executors once it runs: it starts alone, and the executors that exist then start as one.
"""

from __future__ import annotations

from extender.groups.launched import LaunchedDialect


class SparkDialect(LaunchedDialect):
    """A gang is the pods of one application id."""

    name = "spark"
    what = "Spark application"
    label = "spark-app-selector"
    witness = "spark-role"
