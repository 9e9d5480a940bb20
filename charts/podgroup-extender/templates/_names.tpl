{{/* Names are fixed: two extenders that govern the same gangs would promise the same room twice. */}}

{{/* A text as YAML, also within brackets: quoted where it would be read as something else. */}}
{{- define "yaml.text" -}}
{{ if or (ne (toYaml .) .) (regexMatch "^[:?]|[][{},#]" .) }}{{ toJson . }}{{ else }}{{ . }}{{ end }}
{{- end }}

{{- define "extender.labels" -}}
{app.kubernetes.io/name: podgroup-extender, app.kubernetes.io/component: {{ include "extender.component" . }}}
{{- end }}

{{- define "extender.component" -}}
{{ if eq .Values.mode "deployment" }}extender{{ else }}scheduler{{ end }}
{{- end }}

{{- define "extender.image" -}}
{{ .Values.image.repository }}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{/* The cluster's own version: kube-scheduler must not be newer than its API server. */}}
{{- define "scheduler.image" -}}
{{- $image := .Values.scheduler.image -}}
{{ $image.repository }}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ include "scheduler.tag" . }}{{ end }}
{{- end }}

{{- define "scheduler.tag" -}}
{{- $server := semver .Capabilities.KubeVersion.Version -}}
{{ .Values.scheduler.image.tag | default (printf "v%d.%d.%d" $server.Major $server.Minor $server.Patch) }}
{{- end }}

{{/* kube-scheduler's own gang scheduling stays off. 1.34 has none and refuses to start with the gate. */}}
{{- define "scheduler.gates" -}}
{{ if not (regexMatch "^v?1\\.34\\." (include "scheduler.tag" .)) }}GenericWorkload=false{{ end }}
{{- end }}

{{- define "extender.recordSecret" -}}
{{ .Values.recordKey.existingSecret | default "podgroup-extender-records" }}
{{- end }}

{{- define "extender.signs" -}}
{{ if or .Values.recordKey.existingSecret .Values.recordKey.generate }}true{{ end }}
{{- end }}

{{/* Whether it only observes: docs/observe.md. */}}
{{- define "extender.observes" -}}
{{ if eq (dig "mode" "" .Values.config) "observe" }}true{{ end }}
{{- end }}

{{/* Two that observe would count everything twice. */}}
{{- define "extender.replicas" -}}
{{ ternary 1 (int .Values.replicas) (eq (include "extender.observes" .) "true") }}
{{- end }}

{{/* Where kube-scheduler finds the extender of mode deployment, as a URL has it. */}}
{{- define "extender.address" -}}
{{- $service := lookup "v1" "Service" .Release.Namespace "podgroup-extender" | default dict -}}
{{- $found := dig "spec" "clusterIP" "CLUSTER_IP" $service -}}
{{- $address := .Values.service.address | default .Values.service.clusterIP | default $found -}}
{{ if regexMatch "^[0-9a-fA-F:.]*:[0-9a-fA-F:.]*$" $address }}[{{ $address }}]{{ else }}{{ $address }}{{ end }}
{{- end }}

{{/* What no schema can say. */}}
{{- define "extender.validate" -}}
{{- $config := include "extender.config" . | fromYaml -}}
{{- with $config.Error }}
{{- fail (printf "the configuration is no YAML: %s" .) }}
{{- end }}
{{- if and (eq .Values.mode "deployment") .Values.bindBarrier.enabled }}
{{- fail "bindBarrier.enabled: mode deployment has no entry for it; kube-scheduler would bind past the extender while it is away" }}
{{- end }}
{{- if and .Values.recordKey.existingSecret .Values.recordKey.generate }}
{{- fail "recordKey: existingSecret and generate are both set; one key signs" }}
{{- end }}
{{- if and (eq .Values.mode "static-pod") (include "extender.signs" .) }}
{{- fail "recordKey: a static pod mounts no Secret; put the key on the host and set staticPod.recordKeyFile" }}
{{- end }}
{{- if include "extender.observes" . }}
{{- if .Values.bindBarrier.enabled }}
{{- fail "bindBarrier.enabled: a binding is a write, and with config.mode observe nothing is written" }}
{{- end }}
{{- if .Values.grpc.listen }}
{{- fail "grpc.listen: observe mode (config.mode) serves HTTP only" }}
{{- end }}
{{- else if dig "observe" "file" "" .Values.config }}
{{- fail "config.observe.file needs config.mode observe; nothing is written to it otherwise" }}
{{- else if not (dig "leadership" "enabled" false $config) }}
{{- fail "config.leadership.enabled is false: with several replicas, or during a roll-out, two extenders would promise the same room" }}
{{- end }}
{{- if ne (dig "bind" "enabled" false $config) .Values.bindBarrier.enabled }}
{{- fail "config.bind.enabled: say it as bindBarrier.enabled, by which kube-scheduler's entry and the right to bind go" }}
{{- end }}
{{- if and .Values.bindBarrier.enabled (le (float64 .Values.bindBarrier.httpTimeoutSeconds) (addf (dig "bind" "holdSeconds" 25 $config) (dig "bind" "postSeconds" 10 $config))) }}
{{- fail "bindBarrier.httpTimeoutSeconds must be above bind.holdSeconds and bind.postSeconds together: kube-scheduler would give up a binding that is held" }}
{{- end }}
{{- if dig "seats" "recordKeyFile" "" .Values.config }}
{{- fail "config.seats.recordKeyFile: say it as recordKey, by which the Secret is mounted, or of a static pod as staticPod.recordKeyFile" }}
{{- end }}
{{- if not (regexMatch "^(/var/lib/podgroup-extender/[^/]+)?$" (dig "observe" "file" "" $config)) }}
{{- fail "config.observe.file: the root is read-only; a file in /var/lib/podgroup-extender has a volume" }}
{{- end }}
{{- if and (eq .Values.mode "deployment") (not (include "extender.observes" .)) (not (dig "leadership" "labelPod" false $config)) }}
{{- fail "config.leadership.labelPod is false: the Service leads to the pod with the leader's label, and there would be none" }}
{{- end }}
{{- $there := .Release.Namespace }}
{{- range list (list "leadership" "namespace" "the Lease") (list "seats" "recordNamespace" "plan records") (list "status" "namespace" "the status") }}
{{- $named := dig (first .) (index . 1) "" $config }}
{{- if and $named (ne $named $there) }}
{{- fail (printf "config.%s.%s is %s: this chart grants the rights for %s in the release's own namespace, %s" (first .) (index . 1) $named (last .) $there) }}
{{- end }}
{{- end }}
{{- if ne (int (dig "server" "port" 8888 $config)) 8888 }}
{{- fail "config.server.port: kube-scheduler's configuration, probes and policies of this chart say 8888" }}
{{- end }}
{{- if and (ne .Values.mode "static-pod") (ne (int (dig "server" "healthPort" 8889 $config | default 0)) 8889) }}
{{- fail "config.server.healthPort: probes, policies and the PodMonitor of this chart say 8889" }}
{{- end }}
{{- if ne .Values.mode "deployment" }}
{{- if not (regexMatch "^(127(\\.[0-9]+){3}|localhost|::1)$" (dig "server" "host" "127.0.0.1" $config)) }}
{{- fail "config.server.host: in this mode only the kube-scheduler beside it calls, over loopback; others are not to reach the verbs" }}
{{- end }}
{{- if and .Values.grpc.listen (not (include "grpc.private" .)) }}
{{- fail "grpc.listen: a port that others reach needs certificates, which mode deployment has; here a Unix socket or loopback" }}
{{- end }}
{{- end }}
{{- range $label, $_ := .Values.podLabels }}
{{- if regexMatch "^(app\\.kubernetes\\.io/(name|component)|podgroup-extender\\.io/.*|component|tier)$" $label }}
{{- fail (printf "podLabels: the Service, policies and budgets know the pods by %s, or the control plane does; take another label" $label) }}
{{- end }}
{{- end }}
{{- range $annotation, $_ := .Values.podAnnotations }}
{{- if hasPrefix "podgroup-extender.io/" $annotation }}
{{- fail (printf "podAnnotations: %s is the chart's own" $annotation) }}
{{- end }}
{{- end }}
{{- $socket := include "grpc.directory" . }}
{{- if regexMatch "^/((proc|sys|dev|etc|usr|opt|bin|lib|sbin)(/.*)?|var|run|var/run(/secrets(/.*)?)?)?$" $socket }}
{{- fail (printf "grpc.listen: an empty directory is mounted for the socket, and %s has what the pod needs; name one of its own, for example /run/podgroup-extender" $socket) }}
{{- end }}
{{- if dig "grpc" "listen" "" .Values.config }}
{{- fail "config.grpc.listen: say it as grpc.listen, by which volumes, ports and policies go" }}
{{- end }}
{{- if le (int .Values.scheduler.httpTimeoutSeconds) (int (dig "plan" "seconds" 3 $config)) }}
{{- fail "scheduler.httpTimeoutSeconds must be above plan.seconds: kube-scheduler would give up before the search ends" }}
{{- end }}
{{- end }}
