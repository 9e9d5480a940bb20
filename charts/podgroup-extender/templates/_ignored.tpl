{{/* Values that were changed and do nothing in this mode, one a line: files/ignored.yaml has them all. */}}
{{- define "values.ignored" -}}
{{- range $group := (.Files.Get "files/ignored.yaml" | fromYaml).values }}
{{- if has $.Values.mode $group.modes }}
{{- range $name, $default := $group.defaults }}
{{- $now := $.Values }}
{{- range splitList "." $name }}
{{- $now = get ($now | default dict) . }}
{{- end }}
{{- if ne (toJson $now) (toJson $default) }}
  {{ $name }}: {{ $group.why }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
