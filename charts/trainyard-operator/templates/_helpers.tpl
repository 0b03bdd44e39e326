{{- define "trainyard-operator.name" -}}
{{- if contains "operator" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-operator" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "trainyard-operator.selector" -}}
app.kubernetes.io/name: trainyard-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "trainyard-operator.labels" -}}
{{ include "trainyard-operator.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: controller
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "trainyard-operator.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "trainyard-operator.name" .) }}{{ else }}{{ required "serviceAccount.name is required when serviceAccount.create is false" .Values.serviceAccount.name }}{{ end }}
{{- end }}

{{- define "trainyard-operator.pageAddress" -}}
{{- if contains ":" .Values.page.host }}[{{ .Values.page.host }}]{{ else }}{{ .Values.page.host }}{{ end }}:{{ .Values.page.port }}
{{- end }}

{{- /* "yes" where other pods can reach the page. */ -}}
{{- define "trainyard-operator.pageIsOpen" -}}
{{- if and .Values.page.enabled (not (hasPrefix "127." .Values.page.host)) (not (has .Values.page.host (list "::1" "localhost"))) }}yes{{ end }}
{{- end }}

{{- /* The rights of the operator in a namespace whose jobs it reconciles. Every verb has its reason. */ -}}
{{- define "trainyard-operator.rules" -}}
- apiGroups: [trainyard.dev]
  resources: [trainingjobs]
  # list, watch: to see the jobs. delete: ttlSecondsAfterFinished.
  verbs: [list, watch, delete]
- apiGroups: [trainyard.dev]
  resources: [trainingjobs/status]
  # update: the status is written as a whole, at most once per reconcile.
  verbs: [update]
- apiGroups: [trainyard.dev]
  resources: [trainingjobs/finalizers]
  # update: children carry blockOwnerDeletion, which OwnerReferencesPermissionEnforcement allows only with this.
  verbs: [update]
- apiGroups: [""]
  resources: [pods]
  # list, watch: to see the replicas. create, delete: to start, restart and stop them. get: to look at one whose name is taken. patch: to
  # adopt or release one (ownerReferences).
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [services]
  # list, watch: to see what is there. create, delete: one per replica, or one per job, and one that serves its checkpoints. get: to look at
  # one whose name is taken. patch: to adopt or release one.
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [configmaps]
  # list, watch: to see hand edits and undo them. create, delete: one per job. update: host lists follow the scale. get: to look at one whose
  # name is taken. patch: to adopt or release one.
  verbs: [get, list, watch, create, update, patch, delete]
- apiGroups: [apps]
  resources: [deployments]
  # spec.serve of a job. list, watch: to see what is ready, and hand edits. create, delete: one per job. get: to look at one whose name is taken.
  # patch: to follow an edit of the job, to undo one of the Deployment, to adopt or release it.
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [events.k8s.io]
  resources: [events]
  # create: to tell people what happened. patch: repeats are counted in one event instead of creating more.
  verbs: [create, patch]
{{- if has "--progress=proxy" .Values.operator.extraArgs }}
- apiGroups: [""]
  resources: [pods/proxy, services/proxy]
  # get: a chief's progress and a server's version come through the API server.
  verbs: [get]
{{- end }}
{{- if or .Values.mpi.enabled .Values.secrets.enabled }}
- apiGroups: [""]
  resources: [secrets]
  # create: one for a job, with its key, its certificates or its ssh keys. get: to see whether it is there, and whose it is before it is deleted: Secrets are never listed.
  # patch: to give it back its labels. delete: when the job has ended, unless its pods are kept.
  verbs: [get, create, patch, delete]
{{- end }}
{{- if .Values.gang.volcano }}
- apiGroups: [scheduling.volcano.sh]
  resources: [podgroups]
  # create: one per job. get: to see whether it is there and whose it is: PodGroups are never listed. patch: minMember and minResources follow the scale.
  # delete: a job that has ended or is suspended holds no place in the queue.
  verbs: [get, create, patch, delete]
{{- end }}
{{- if .Values.gang.coscheduling }}
- apiGroups: [scheduling.x-k8s.io]
  resources: [podgroups]
  # create: one per job. get: to see whether it is there and whose it is: PodGroups are never listed. patch: minMember and minResources follow the scale.
  # delete: a job that has ended or is suspended holds no place in the queue.
  verbs: [get, create, patch, delete]
{{- end }}
{{- if .Values.gang.native }}
- apiGroups: [scheduling.k8s.io]
  resources: [podgroups]
  # create: one per job. get: to see whether it is there and whose it is: PodGroups are never listed. patch: minCount follows the scale.
  # delete: a job that has ended or is suspended holds no place in the queue.
  verbs: [get, create, patch, delete]
{{- end }}
{{- end }}
