{{/* Of all objects; a Service's has at most 63 characters, "-admin" among them. */}}
{{- define "queuegate.name" -}}
{{- .Values.name | default .Release.Name | trunc 57 | trimSuffix "-" -}}
{{- end -}}

{{/* Of the pods: two releases in a namespace have their own. */}}
{{- define "queuegate.selector" -}}
app.kubernetes.io/name: queuegate
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "queuegate.labels" -}}
{{ include "queuegate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "queuegate.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* The name of the Secret that the pods read. */}}
{{- define "queuegate.secret" -}}
{{- if and .Values.secret.existing (or .Values.secret.backend .Values.secret.peersSecret) -}}
{{- fail "secret.existing names a Secret, so secret.backend and secret.peersSecret are not used: give one or the other" -}}
{{- end -}}
{{- if and .Values.secret.peersSecret (not .Values.secret.backend) -}}
{{- fail "the Secret is made with secret.backend; without it, put QUEUEGATE_PEERS_SECRET into your own" -}}
{{- end -}}
{{- .Values.secret.existing | default (include "queuegate.name" .) -}}
{{- end -}}

{{/* config.yaml: the values' keys, and the chart's own, of which its other objects know. */}}
{{- define "queuegate.config" -}}
{{- $given := deepCopy .Values.config -}}
{{- if kindIs "bool" (get $given "peers") -}}
{{- $_ := set $given "peers" (dict "enabled" (get $given "peers")) -}}
{{- end -}}
{{- range list "listen" "backend" "workers" -}}
{{- if hasKey $given . -}}
{{- fail (printf "config.%s is set by the chart: the ports are fixed, the backend is in the Secret, and each pod has one worker, as each has a peers' port of its own" .) -}}
{{- end -}}
{{- end -}}
{{- range list "admin" "peers" -}}
{{- if hasKey (default (dict) (get $given .)) "listen" -}}
{{- fail (printf "config.%s.listen is set by the chart: services and policies name its port" .) -}}
{{- end -}}
{{- end -}}
{{- $own := dict "listen" "0.0.0.0:3307" "backend" "mysql://queuegate@mysql:3306/shop" -}}
{{- $_ := set $own "admin" (dict "listen" "0.0.0.0:9307") -}}
{{- $_ := set $own "peers" (dict "listen" "0.0.0.0:3308") -}}
{{- $console := dict -}}
{{- if .Values.console.enabled -}}
{{- $console = dict "console" (dict "listen" "127.0.0.1:8307") -}}
{{- else if hasKey $given "console" -}}
{{- fail "config.console needs console.enabled" -}}
{{- end -}}
{{- toYaml (mustMergeOverwrite $console $given $own) -}}
{{- end -}}

{{/* How often the startup probe asks, each two seconds: for wait_for_backend, and for a minute more. */}}
{{- define "queuegate.startupChecks" -}}
{{- $wait := get .Values.config "wait_for_backend" | default 0 | toString | lower | nospace -}}
{{- if not (regexMatch "^([0-9]+([.][0-9]*)?|[.][0-9]+)(ms|s|m|h|d)?$" $wait) -}}
{{- fail (printf "config.wait_for_backend: %s is not a duration; give seconds, or 90s, 5m" $wait) -}}
{{- end -}}
{{- $seconds := dict "ms" 0.001 "s" 1.0 "m" 60.0 "h" 3600.0 "d" 86400.0 -}}
{{- $unit := regexFind "[a-z]+$" $wait | default "s" -}}
{{- $number := trimSuffix $unit $wait | float64 -}}
{{- add 30 (divf (mulf $number (get $seconds $unit)) 2 | ceil) -}}
{{- end -}}
