{{- define "resurge.labels" -}}
app.kubernetes.io/name: resurge
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "resurge.results" -}}
{{ .Values.database.url | default "/var/lib/resurge/results.sqlite" }}
{{- end }}
{{- define "resurge.container" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
volumeMounts:
  - {name: data, mountPath: /var/lib/resurge}
  - {name: tmp, mountPath: /tmp}
{{- end }}
{{- define "resurge.password" -}}
{{- with .Values.database.passwordSecret }}
env:
  - name: PGPASSWORD
    valueFrom:
      secretKeyRef: {name: {{ .name | quote }}, key: {{ .key | quote }}}
{{- end }}
{{- end }}
