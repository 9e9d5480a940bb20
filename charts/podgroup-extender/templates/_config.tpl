{{/* The extender's configuration: the mode's own text, or, where `config` lays keys over it, both merged. */}}
{{- define "extender.config" -}}
{{- $text := include "extender.config.text" . -}}
{{- if .Values.config -}}
{{- mustMergeOverwrite ($text | fromYaml) (deepCopy .Values.config) | toYaml -}}
{{- else -}}
{{- $text | trim -}}
{{- end -}}
{{- end }}

{{- define "extender.config.text" -}}
{{- if eq .Values.mode "second-scheduler" -}}
# Plan only for gangs whose scheduler asks us; another scheduler would give their seats away.
schedulerNames: [{{ include "yaml.text" .Values.scheduler.name }}]
server:
  # The verbs: only kube-scheduler, which is in the same pod, calls.
  host: 127.0.0.1
  port: 8888
  # Probes and metrics come from outside and get a listener of their own, without verbs.
  healthHost: 0.0.0.0
  healthPort: 8889
  # Prometheus needs no token: the NetworkPolicy podgroup-scheduler admits no other caller.
  openMetrics: true
{{- else if eq .Values.mode "deployment" -}}
schedulerNames: [default-scheduler]
server:
  host: 0.0.0.0
  port: 8888
  tlsCertFile: /etc/podgroup-extender-tls/tls.crt
  tlsKeyFile: /etc/podgroup-extender-tls/tls.key
  # Nobody calls without a certificate of this authority with this name.
  clientCaFile: /etc/podgroup-extender-tls/ca.crt
  allowedNames: {{ toJson .Values.tls.allowedNames }}
  # Probes and metrics, also over TLS: metrics for a token that the API server allows.
  healthPort: 8889
  {{- if include "extender.observes" . }}
  # To review a token is a write. The NetworkPolicy podgroup-extender keeps others away.
  openMetrics: true
  {{- end }}
{{- else -}}
schedulerNames: [default-scheduler]
server:
  # Only kube-scheduler in the same pod and kubelet on the same node call.
  host: 127.0.0.1
  port: 8888
{{- end }}
plan:
  # Must end before httpTimeout in kube-scheduler's configuration.
  seconds: 3
  pdbPolicy: respect
  protectedNamespaces: [kube-system, {{ include "yaml.text" .Release.Namespace }}]
{{- if .Values.bindBarrier.enabled }}
bind:
  # A member's binding is held until those of all members of its plan have come. The right to
  # bind is the ClusterRole podgroup-extender-bind.
  enabled: true
  # Together below httpTimeout of the entry with bindVerb.
  holdSeconds: 25
  postSeconds: 10
{{- end }}
{{- if eq .Values.mode "static-pod" }}
seats:
  # Without a service account there is no namespace of our own; the Role grants this one.
  recordNamespace: {{ include "yaml.text" .Release.Namespace }}
  # Signs plan records. Needed where others may write ConfigMaps in that namespace: the same file on
  # each control plane node, readable for group 65532 alone (openssl rand -hex 32 makes one).
  {{- if .Values.staticPod.recordKeyFile }}
  recordKeyFile: {{ include "yaml.text" .Values.staticPod.recordKeyFile }}
  {{- else }}
  # recordKeyFile: /etc/podgroup-extender/records.key
  {{- end }}
{{- else if include "extender.signs" . }}
seats:
  recordKeyFile: /etc/podgroup-extender-records/key
{{- else }}
# Signs plan records. Needed where others may write ConfigMaps in this namespace. First, with no
# plan is open: kubectl create secret generic podgroup-extender-records -n podgroup-extender
#   --from-literal=key="$(openssl rand -hex 32)"
# seats:
#   recordKeyFile: /etc/podgroup-extender-records/key
{{- end }}
{{- with .Values.grpc.listen }}
grpc:
  listen: {{ include "yaml.text" . }}
{{- end }}
{{- with include "verifier.address" . }}
verifier:
  address: {{ . }}
{{- end }}
{{- if include "extender.observes" . }}
observe:
  # Outlives the container, not the pod.
  file: /var/lib/podgroup-extender/observe.json
{{- else }}
leadership:
{{- if eq .Values.mode "second-scheduler" }}
  # Several replicas: the one that its kube-scheduler asks acts.
  enabled: true
{{- else if eq .Values.mode "deployment" }}
  enabled: true
  # The Service selects the leader by its label: a standby is ready, but answers no verb.
  labelPod: true
{{- else }}
  # One extender on each control plane node; the one that is asked acts.
  enabled: true
{{- end }}
{{- end }}
{{- end }}

{{/* kube-scheduler's configuration of each mode. */}}
{{- define "scheduler.config" -}}
{{- if eq .Values.mode "second-scheduler" -}}
# For the second kube-scheduler. `podgroup-extender check` explains what breaks when a value here is
# changed.
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: true
  resourceName: podgroup-scheduler
  resourceNamespace: {{ include "yaml.text" .Release.Namespace }}
{{- include "scheduler.sampling" . }}
profiles:
  - schedulerName: {{ include "yaml.text" .Values.scheduler.name }}
{{- else -}}
{{- if eq .Values.mode "deployment" -}}
# For a kube-scheduler that calls the extender over its Service. Two entries for one extender: while
# it does not answer, pods that fit are placed without it (its own pod too), but no pod is evicted.
# What that costs is in docs/operations.md.
{{- else -}}
# /etc/podgroup-extender/kube-scheduler-config.yaml on the control plane node.
{{- end }}
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: /etc/kubernetes/scheduler.conf
leaderElection:
  leaderElect: true
{{- include "scheduler.sampling" . }}
profiles:
  - schedulerName: default-scheduler
{{- end }}
    pluginConfig:
      - name: DefaultPreemption
        args:
          apiVersion: kubescheduler.config.k8s.io/v1
          kind: DefaultPreemptionArgs
          # Show the extender every candidate node when a single pod preempts: by default it is a
          # tenth (a hundred at least), where the node that breaks no gang may not be among them.
          # It costs a dry run on each of them for each pod that preempts, and nothing for others.
          minCandidateNodesPercentage: 100
extenders:
{{- if eq .Values.mode "deployment" }}
  # The cluster IP of Service podgroup-extender. The files lie on the host of kube-scheduler: its
  # certificate, and the authority of the extender's.
  - urlPrefix: https://{{ include "extender.address" . }}:8888
    {{- include "scheduler.tls" . | nindent 4 }}
    preemptVerb: preempt
    nodeCacheCapable: true
    ignorable: {{ include "scheduler.ignorable" . }}
    httpTimeout: {{ .Values.scheduler.httpTimeoutSeconds }}s
  - urlPrefix: https://{{ include "extender.address" . }}:8888
    {{- include "scheduler.tls" . | nindent 4 }}
    filterVerb: filter
    nodeCacheCapable: true
    ignorable: true
    httpTimeout: {{ .Values.scheduler.httpTimeoutSeconds }}s
{{- else }}
  - urlPrefix: http://127.0.0.1:8888
    filterVerb: filter
    preemptVerb: preempt
    # Names only: the extender has its own cache of nodes and pods.
    nodeCacheCapable: true
    {{- if include "extender.observes" . }}
    # It only observes: nothing is held that failing closed would protect.
    {{- else }}
    # Fail closed: without an answer nothing is placed and nothing is evicted.
    {{- end }}
    ignorable: {{ include "scheduler.ignorable" . }}
    httpTimeout: {{ .Values.scheduler.httpTimeoutSeconds }}s
{{- if .Values.bindBarrier.enabled }}
  # The bind barrier: a second entry for the same extender, asked for nothing but bindings.
  # docs/barrier.md says what it promises and what it costs.
  - urlPrefix: http://127.0.0.1:8888
    bindVerb: bind
    {{- with .Values.bindBarrier.managedResources }}
    # Only pods that ask for these; left out: every pod is bound by the extender.
    managedResources:
      {{- range . }}
      - name: {{ include "yaml.text" . }}
        ignoredByScheduler: false
      {{- end }}
    {{- end }}
    nodeCacheCapable: true
    # Fail closed: ignored, a refused member would be bound by kube-scheduler itself.
    ignorable: false
    # Above bind.holdSeconds and bind.postSeconds together. Bindings run beside the scheduling loop:
    # one that is held delays no other.
    httpTimeout: {{ .Values.bindBarrier.httpTimeoutSeconds }}s
{{- end }}
{{- end }}
{{- end }}

{{/* Whether kube-scheduler continues without an answer of the entry that guards preemption. */}}
{{- define "scheduler.ignorable" -}}
{{ eq (include "extender.observes" .) "true" }}
{{- end }}

{{- define "scheduler.sampling" }}
{{- with .Values.scheduler.percentageOfNodesToScore }}
percentageOfNodesToScore: {{ . }}
{{- end }}
{{- end }}

{{- define "scheduler.tls" -}}
tlsConfig:
  serverName: podgroup-extender.{{ .Release.Namespace }}.svc
  caFile: /etc/kubernetes/podgroup-extender/ca.crt
  certFile: /etc/kubernetes/podgroup-extender/tls.crt
  keyFile: /etc/kubernetes/podgroup-extender/tls.key
{{- end }}
