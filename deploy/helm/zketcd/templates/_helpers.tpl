{{/* Name of all resources. */}}
{{- define "zketcd.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Labels by which a resource selects the proxies: never change them, a Deployment's selector is immutable. */}}
{{- define "zketcd.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "zketcd.labels" -}}
{{ include "zketcd.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "zketcd.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- include "zketcd.fullname" . -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* The tree and the way to etcd: in the environment, so that `kubectl exec ... -- zketcd sessions` has them too. */}}
{{- define "zketcd.env" -}}
- name: ZKETCD_ETCD
  value: {{ join "," .Values.etcd.endpoints | quote }}
- name: ZKETCD_PREFIX
  value: {{ .Values.etcd.prefix | quote }}
{{- with .Values.etcd.tls }}
{{- if .secretName }}
- name: ZKETCD_ETCD_CA
  value: /etc/zketcd/etcd/ca.crt
{{- if .clientCertificate }}
- name: ZKETCD_ETCD_CERT
  value: /etc/zketcd/etcd/tls.crt
- name: ZKETCD_ETCD_KEY
  value: /etc/zketcd/etcd/tls.key
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.etcd.auth.secretName }}
- name: ZKETCD_ETCD_USER
  valueFrom:
    secretKeyRef:
      name: {{ . }}
      key: username
- name: ZKETCD_ETCD_PASSWORD_FILE
  value: /etc/zketcd/etcd-user/password
{{- end }}
{{- end -}}

{{/* The files for etcd, that `zketcd.env` names. Whole folders: Kubernetes does not renew single files (subPath). */}}
{{- define "zketcd.etcdMounts" -}}
{{- if .Values.etcd.tls.secretName }}
- name: etcd-tls
  mountPath: /etc/zketcd/etcd
  readOnly: true
{{- end }}
{{- if .Values.etcd.auth.secretName }}
- name: etcd-user
  mountPath: /etc/zketcd/etcd-user
  readOnly: true
{{- end }}
{{- end -}}

{{- define "zketcd.etcdVolumes" -}}
{{- with .Values.etcd.tls.secretName }}
- name: etcd-tls
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- with .Values.etcd.auth.secretName }}
- name: etcd-user
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- end -}}

{{/* The port at which several replicas append together; empty for none. */}}
{{- define "zketcd.peerPort" -}}
{{- if and .Values.peerPort (gt (int .Values.replicas) 1) -}}
{{- int .Values.peerPort -}}
{{- end -}}
{{- end -}}

{{/* The command line of the proxy. Addresses: docs/kubernetes.md names the ports. */}}
{{- define "zketcd.args" -}}
{{- if not .Values.etcd.endpoints -}}
{{- fail "etcd.endpoints is empty: name the client URLs of etcd's members" -}}
{{- end -}}
{{- if lt (int .Values.terminationGracePeriodSeconds) (add (int .Values.preStopSeconds) 12 | int) -}}
{{- fail (printf "terminationGracePeriodSeconds is %v: a proxy needs preStopSeconds (%v) and up to 12 s to drain, else it is killed" .Values.terminationGracePeriodSeconds .Values.preStopSeconds) -}}
{{- end -}}
- --listen=:2181
- --admin-listen=:8080
{{- with .Values.tls }}
{{- if .secretName }}
- --tls-cert=/etc/zketcd/tls/tls.crt
- --tls-key=/etc/zketcd/tls/tls.key
{{- if ne .clientAuth "none" }}
- --tls-ca=/etc/zketcd/tls/ca.crt
{{- end }}
- --tls-client-auth={{ .clientAuth }}
- --tls-min-version={{ .minVersion }}
- --listen-tls={{ .listen }}
{{- end }}
{{- end }}
{{- if ne .Values.proxyProtocol.mode "off" }}
{{- if not .Values.proxyProtocol.from }}
{{- fail "proxyProtocol.from is empty: name the addresses of the load balancers" }}
{{- end }}
- --proxy-protocol={{ .Values.proxyProtocol.mode }}
- --proxy-protocol-from={{ join "," .Values.proxyProtocol.from }}
{{- end }}
{{- with include "zketcd.peerPort" . }}
- --peer-listen=:{{ . }}
{{- /* The brackets are for IPv6; an address of IPv4 may have them too. */}}
- --peer-advertise=[$(POD_IP)]:{{ . }}
{{- end }}
{{- range $option, $value := .Values.options }}
{{- /* Numbers come as floats: 2e+06 otherwise. A fraction stays one, which zketcd refuses. */}}
{{- if kindIs "float64" $value }}
{{- $value = toJson $value }}
{{- end }}
- {{ printf "--%s=%v" $option $value | quote }}
{{- end }}
{{- end -}}
