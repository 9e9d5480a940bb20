{{/* The directory of gRPC's Unix socket; empty where gRPC is off or on a port. */}}
{{- define "grpc.directory" -}}
{{- if hasPrefix "unix:" .Values.grpc.listen -}}
{{ .Values.grpc.listen | trimPrefix "unix:" | clean | dir }}
{{- end -}}
{{- end }}

{{/* The root is read-only, so the socket needs a volume: one of its own, or /tmp, which has one. */}}
{{- define "grpc.own" -}}
{{- $directory := include "grpc.directory" . -}}
{{ if and $directory (ne $directory "/tmp") }}true{{ end }}
{{- end }}

{{- define "grpc.mount" -}}
{{- if include "grpc.own" . -}}
- {name: grpc, mountPath: {{ include "yaml.text" (include "grpc.directory" .) }}}
{{- end -}}
{{- end }}

{{- define "grpc.volume" -}}
{{- if include "grpc.own" . -}}
- name: grpc
  emptyDir: {medium: Memory, sizeLimit: 1Mi}
{{- end -}}
{{- end }}

{{/* For the kube-scheduler in the same pod, whose plugin calls (docs/plugin.md). */}}
{{- define "grpc.shared" -}}
{{- with include "grpc.directory" . -}}
- {name: {{ include "grpc.own" $ | empty | ternary "tmp" "grpc" }}, mountPath: {{ include "yaml.text" . }}}
{{- end -}}
{{- end }}

{{/* Whether gRPC is reached from the pod only. */}}
{{- define "grpc.private" -}}
{{ if regexMatch "^(unix:|127\\.|localhost:|\\[::1\\])" .Values.grpc.listen }}true{{ end }}
{{- end }}

{{/* The port of gRPC where others are to reach it; empty for a Unix socket, loopback and off. */}}
{{- define "grpc.port" -}}
{{- $listen := .Values.grpc.listen -}}
{{- if and (eq .Values.mode "deployment") $listen (not (include "grpc.private" .)) -}}
{{ regexFind "[0-9]+$" $listen }}
{{- end -}}
{{- end }}

{{/* Where the verifier is asked; empty where it is not in the pod. */}}
{{- define "verifier.address" -}}
{{ if and .Values.verifier.image (eq .Values.mode "second-scheduler") }}unix:/tmp/verifier.sock{{ end }}
{{- end }}

{{- define "verifier.resources" -}}
{{- $own := dict "requests" (dict "cpu" "100m" "memory" "256Mi") "limits" (dict "memory" "4Gi") -}}
{{- mustMergeOverwrite $own (deepCopy .Values.verifier.resources) | toYaml -}}
{{- end }}
