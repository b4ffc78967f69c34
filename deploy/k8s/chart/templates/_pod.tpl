{{- define "sluice.labels" -}}
{app.kubernetes.io/name: sluice, app.kubernetes.io/component: {{ . }}}
{{- end }}

{{- /* A quoted text; Helm itself writes 1000000 as 1e+06. */ -}}
{{- define "sluice.text" -}}
{{ ternary (toJson .) . (kindIs "float64" .) | quote }}
{{- end }}

{{- /* What all pods have in common: .values, .name, .resources; the caller adds the container's ports and probes. */ -}}
{{- define "sluice.pod" -}}
automountServiceAccountToken: false
serviceAccountName: {{ .values.serviceAccount }}
{{- with .values.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
volumes:
  - name: tmp
    emptyDir: {sizeLimit: 256Mi}
  {{- if .secrets }}
  - name: secrets
    secret:
      secretName: {{ .values.secret }}
      items:
        {{- range .secrets }}
        - {key: {{ . }}, path: {{ . }}}
        {{- end }}
  {{- end }}
  {{- with .values.blobsClaim }}
  - name: blobs
    persistentVolumeClaim: {claimName: {{ . }}}
  {{- end }}
containers:
  - name: sluice
    image: {{ .values.image }}
    args: [{{ .name }}]
    env:
      {{- range $name, $value := .settings }}
      - {name: {{ $name }}, value: {{ include "sluice.text" $value }}}
      {{- end }}
      {{- range .secrets }}
      - {name: {{ . }}_FILE, value: /secrets/{{ . }}}
      {{- end }}
    {{- with .values.bucketSecret }}
    envFrom:
      - secretRef: {name: {{ . }}}
    {{- end }}
    resources:
      {{- toYaml .resources | nindent 6 }}
    securityContext:
      readOnlyRootFilesystem: true
      allowPrivilegeEscalation: false
      capabilities: {drop: [ALL]}
    volumeMounts:
      - {name: tmp, mountPath: /tmp}
      {{- if .secrets }}
      - {name: secrets, mountPath: /secrets, readOnly: true}
      {{- end }}
      {{- if .values.blobsClaim }}
      - {name: blobs, mountPath: /blobs}
      {{- end }}
{{- end }}
