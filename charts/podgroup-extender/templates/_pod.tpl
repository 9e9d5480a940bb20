{{/* What the pods of both Deployments have in common. */}}

{{- define "pod.metadata" -}}
metadata:
  labels:
    app.kubernetes.io/name: podgroup-extender
    app.kubernetes.io/component: {{ include "extender.component" . }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    {{- if not (hasKey .Values.podAnnotations "prometheus.io/scrape") }}
    prometheus.io/scrape: "true"
    {{- end }}
    {{- if not (hasKey .Values.podAnnotations "prometheus.io/port") }}
    prometheus.io/port: "8889"
    {{- end }}
    {{- if and (eq .Values.mode "deployment") (not (hasKey .Values.podAnnotations "prometheus.io/scheme")) }}
    prometheus.io/scheme: https
    {{- end }}
    {{- if .Values.rollOnConfigChange }}
    podgroup-extender.io/config: {{ include "config.sum" . }}
    {{- end }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{/* What the pod was started with. */}}
{{- define "config.sum" -}}
{{ printf "%s\n%s" (include "extender.config" .) (eq .Values.mode "deployment" | ternary "" (include "scheduler.config" .)) | sha256sum }}
{{- end }}

{{- define "pod.priority" -}}
{{ .Values.priorityClassName | default (eq .Values.mode "static-pod" | ternary "system-node-critical" "system-cluster-critical") }}
{{- end }}

{{/* kube-scheduler's: a cluster's own gets what kubeadm gives it, and no limit that could end it. */}}
{{- define "scheduler.resources" -}}
{{- $own := dict "requests" (dict "cpu" "200m" "memory" "256Mi") "limits" (dict "memory" "4Gi") -}}
{{- if eq .Values.mode "static-pod" -}}
{{- $own = dict "requests" (dict "cpu" "100m") -}}
{{- end -}}
{{- mustMergeOverwrite $own (deepCopy .Values.scheduler.resources) | toYaml -}}
{{- end }}

{{- define "pod.spread" -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            app.kubernetes.io/name: podgroup-extender
            app.kubernetes.io/component: {{ include "extender.component" . }}
{{- end }}

{{- define "pod.user" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "container.confinement" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- define "extender.mounts" -}}
- {name: extender-config, mountPath: /etc/podgroup-extender, readOnly: true}
{{- if eq .Values.mode "deployment" }}
- {name: tls, mountPath: /etc/podgroup-extender-tls, readOnly: true}
{{- end }}
- {name: record-key, mountPath: /etc/podgroup-extender-records, readOnly: true}
- {name: token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- if include "extender.observes" . }}
- {name: observed, mountPath: /var/lib/podgroup-extender}
{{- end }}
{{- with include "grpc.mount" . }}
{{ . }}
{{- end }}
{{- end }}

{{- define "pod.volumes" -}}
- name: extender-config
  configMap: {name: podgroup-extender-config}
{{- if eq .Values.mode "deployment" }}
- name: tls
  secret: {secretName: {{ include "yaml.text" .Values.tls.secretName }}}
{{- else }}
- name: scheduler-config
  configMap: {name: podgroup-scheduler-config}
{{- end }}
# The key that signs plan records: seats.recordKeyFile in the extender's configuration.
- name: record-key
  secret: {secretName: {{ include "yaml.text" (include "extender.recordSecret" .) }}, optional: {{ include "extender.signs" . | empty }}}
- name: tmp
  emptyDir: {medium: Memory, sizeLimit: 16Mi}
{{- if include "extender.observes" . }}
# observe.file in the extender's configuration.
- name: observed
  emptyDir: {sizeLimit: 256Mi}
{{- end }}
{{- with include "grpc.volume" . }}
{{ . }}
{{- end }}
# What a pod is given unasked, but only for the containers that mount it. kubelet renews the
# token; it is worth nothing once the pod is gone.
- name: token
  projected:
    sources:
      - serviceAccountToken: {path: token, expirationSeconds: 3600}
      - configMap:
          name: kube-root-ca.crt
          items: [{key: ca.crt, path: ca.crt}]
      - downwardAPI:
          items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]
{{- end }}

{{/* Rules of both NetworkPolicies: where the pods may go. */}}
{{- define "network.egress" -}}
egress:
  # The API server. Its address is not the same in two clusters: say it where you know it
  # (networkPolicy.apiServerCIDRs, ipBlocks under `to`; policies see the address behind the Service
  # `kubernetes`), and other ports where yours has them.
  - ports:
      {{- range .Values.networkPolicy.apiServerPorts }}
      - {protocol: TCP, port: {{ . }}}
      {{- end }}
    {{- with .Values.networkPolicy.apiServerCIDRs }}
    to:
      {{- range . }}
      - ipBlock: {cidr: {{ include "yaml.text" . }}}
      {{- end }}
    {{- end }}
  {{- if .Values.networkPolicy.dns }}
  # Cluster DNS, for a kubeconfig or a cluster that names the API server by its host name.
  - to:
      - namespaceSelector:
          matchLabels: {kubernetes.io/metadata.name: kube-system}
        podSelector:
          matchLabels: {k8s-app: kube-dns}
    ports:
      - {protocol: UDP, port: 53}
      - {protocol: TCP, port: 53}
  {{- end }}
  {{- if dig "tracing" "endpoint" "" .Values.config }}
  # The receiver of config.tracing.endpoint.
  - ports:
      {{- range .Values.networkPolicy.traces.ports }}
      - {protocol: TCP, port: {{ . }}}
      {{- end }}
    {{- with .Values.networkPolicy.traces.receivers }}
    to:
      {{- toYaml . | nindent 6 }}
    {{- end }}
  {{- end }}
{{- end }}

{{/* A drained node takes one replica after the other, and is never held up by a single one. */}}
{{- define "budget.limit" -}}
{{- if gt (int (include "extender.replicas" .)) 1 -}}
# Standbys are ready too, so the leader's node can be drained: it hands over.
minAvailable: 1
{{- else -}}
# One replica: a drain must be able to take it.
maxUnavailable: 1
{{- end }}
{{- end }}
