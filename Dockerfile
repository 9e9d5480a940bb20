# Two stages: the first has a compiler and pip, the second neither.
# tools/install-wheel is what .ci/run tests, so the image holds what the checks have seen.
#
# Whoever can push to the registry can move a tag, so an image that is shipped names its base by
# digest too (docker buildx imagetools inspect python:3.11-slim-bookworm says which):
#   docker build --build-arg PYTHON_IMAGE=python:3.11-slim-bookworm@sha256:... .
# None stands here: none could be looked up where this file was written. To try things out with
# the tag alone: --build-arg ALLOW_TAG=1.
ARG PYTHON_IMAGE=python:3.11-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
ARG PYTHON_IMAGE
ARG ALLOW_TAG=0
RUN case "$PYTHON_IMAGE" in \
        *@sha256:*) ;; \
        *) [ "$ALLOW_TAG" = 1 ] || { echo "$PYTHON_IMAGE has no digest: see Dockerfile" >&2; exit 1; } ;; \
    esac
# The compiler stays in this stage; Debian signs its packages.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY LICENSE README.md pyproject.toml setup.py ./
COPY requirements ./requirements
COPY tools ./tools
COPY extender ./extender
RUN tools/install-wheel /opt/podgroup-extender

FROM ${PYTHON_IMAGE}
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="podgroup-extender" \
      org.opencontainers.image.description="All-or-nothing gang preemption beside an unmodified kube-scheduler" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
# Nothing is installed at run time.
RUN python -m pip uninstall --yes --root-user-action=ignore setuptools wheel pip \
    && rm -rf /usr/local/lib/python3.*/ensurepip
COPY --from=build /opt/podgroup-extender /opt/podgroup-extender
ENV PATH=/opt/podgroup-extender/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# The root file system may be read-only: bytecode is there already and nothing is written, except
# certificates of a kubeconfig, which go to /tmp.
USER 65532:65532
WORKDIR /
EXPOSE 8888
STOPSIGNAL SIGTERM
ENTRYPOINT ["podgroup-extender"]
CMD ["serve"]
