{{- define "suanli.name" -}}
{{- printf "%s" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "suanli.labels" -}}
app.kubernetes.io/name: suanli-agent
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "suanli.selector" -}}
app.kubernetes.io/name: suanli-agent
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "suanli.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "suanli.secret" -}}
{{- .Values.existingSecret | default (printf "%s-join" (include "suanli.name" .)) -}}
{{- end -}}
