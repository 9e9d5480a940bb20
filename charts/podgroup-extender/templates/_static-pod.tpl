{{- define "static.pod" -}}
# A kubeadm control plane's kube-scheduler with the extender beside it, for
# /etc/kubernetes/manifests/ of every control plane node. The extender beside the kube-scheduler
# that leads is the one that acts (docs/operations.md, Replicas).
# kubelet starts a static pod without any scheduler, so nothing here can prevent its own start, and
# every pod of default-scheduler is asked about. A static pod cannot use a ConfigMap or a service
# account: both configuration files and both kubeconfigs lie on the host.
apiVersion: v1
kind: Pod
metadata:
  name: kube-scheduler
  namespace: kube-system
  {{- if .Values.podLabels }}
  labels:
    component: kube-scheduler
    tier: control-plane
    {{- toYaml .Values.podLabels | nindent 4 }}
  {{- else }}
  labels: {component: kube-scheduler, tier: control-plane}
  {{- end }}
  {{- if or .Values.rollOnConfigChange .Values.podAnnotations }}
  annotations:
    {{- if .Values.rollOnConfigChange }}
    # kubelet starts the pod again when this file changes, and does not look at those beside it.
    podgroup-extender.io/config: {{ include "config.sum" . }}
    {{- end }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
spec:
  hostNetwork: true
  priorityClassName: {{ include "yaml.text" (include "pod.priority" .) }}
  securityContext:
    seccompProfile: {type: RuntimeDefault}
  initContainers:
    - name: extender
      restartPolicy: Always
      image: {{ include "yaml.text" (include "extender.image" .) }}
      args:
        - serve
        - --config=/etc/podgroup-extender/extender-config.yaml
        - --kubeconfig=/etc/podgroup-extender/kubeconfig
      startupProbe:
        httpGet: {host: 127.0.0.1, path: /readyz/caches, port: 8888}
        periodSeconds: 2
        failureThreshold: 90
      readinessProbe:
        httpGet: {host: 127.0.0.1, path: /readyz/caches, port: 8888}
        periodSeconds: 5
      livenessProbe:
        httpGet: {host: 127.0.0.1, path: /livez, port: 8888}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      volumeMounts:
        - {name: extender, mountPath: /etc/podgroup-extender, readOnly: true}
        - {name: tmp, mountPath: /tmp}
        {{- with include "grpc.mount" . }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- if include "extender.observes" . }}
        - {name: observed, mountPath: /var/lib/podgroup-extender}
        {{- end }}
  containers:
    - name: kube-scheduler
      image: {{ include "yaml.text" (include "scheduler.image" .) }}
      command:
        - kube-scheduler
        - --authentication-kubeconfig=/etc/kubernetes/scheduler.conf
        - --authorization-kubeconfig=/etc/kubernetes/scheduler.conf
        - --bind-address=127.0.0.1
        - --config=/etc/podgroup-extender/kube-scheduler-config.yaml
        {{- with include "scheduler.gates" . }}
        - --feature-gates={{ . }}
        {{- end }}
        {{- range .Values.scheduler.extraArgs }}
        - {{ . | quote }}
        {{- end }}
      startupProbe:
        httpGet: {host: 127.0.0.1, path: /livez, port: 10259, scheme: HTTPS}
        periodSeconds: 10
        timeoutSeconds: 15
        failureThreshold: 24
      livenessProbe:
        httpGet: {host: 127.0.0.1, path: /livez, port: 10259, scheme: HTTPS}
        periodSeconds: 10
        timeoutSeconds: 15
        failureThreshold: 8
      readinessProbe:
        httpGet: {host: 127.0.0.1, path: /readyz, port: 10259, scheme: HTTPS}
        periodSeconds: 5
      resources:
        {{- include "scheduler.resources" . | nindent 8 }}
      volumeMounts:
        - {name: kubeconfig, mountPath: /etc/kubernetes/scheduler.conf, readOnly: true}
        - {name: extender, mountPath: /etc/podgroup-extender, readOnly: true}
        {{- with include "grpc.shared" . }}
        {{- . | nindent 8 }}
        {{- end }}
  volumes:
    - name: kubeconfig
      hostPath: {path: /etc/kubernetes/scheduler.conf, type: File}
    # extender-config.yaml, kube-scheduler-config.yaml and kubeconfig, readable for group 65532.
    - name: extender
      hostPath: {path: /etc/podgroup-extender, type: Directory}
    - name: tmp
      emptyDir: {medium: Memory, sizeLimit: 16Mi}
    {{- with include "grpc.volume" . }}
    {{- . | nindent 4 }}
    {{- end }}
    {{- if include "extender.observes" . }}
    # observe.file in the extender's configuration.
    - name: observed
      emptyDir: {sizeLimit: 256Mi}
    {{- end }}
{{- end }}
