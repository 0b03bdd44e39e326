{{- /* The number of servers: some frameworks have none, whatever the values' default says. */ -}}
{{- define "trainingjob.servers" -}}
{{- if has .Values.framework (list "PyTorch" "MPI" "JAX" "XGBoost") }}0{{ else }}{{ .Values.ps.replicas }}{{ end }}
{{- end }}
