#!/usr/bin/env bash
# Installs every Debian 12 package that building, testing and running Trainyard needs. Safe to run again.
#
#   scripts/setup.sh            what the trainer and the operator need to build and pass the unit tests
#   scripts/setup.sh --cluster  also what the real-cluster tests need (runc, CNI plugins, buildah, …)
#   scripts/setup.sh --build    without what only tests need
#   scripts/setup.sh --cuda     also a CUDA toolkit with its libraries, for the backend of NVIDIA GPUs: 1.0 GB to load, 1.5 GB in .cache
set -euo pipefail

build_packages=(
  # toolchain
  clang-19 clang-format-19 clang-tidy-19 lld-19 llvm-19 libclang-rt-19-dev g++ cmake ninja-build ccache pkg-config git python3 python3-venv python3-yaml
  # libraries of both halves
  libabsl-dev libcli11-dev libspdlog-dev libfmt-dev nlohmann-json3-dev libyaml-cpp-dev libcpp-httplib-dev libssl-dev libcurl4-openssl-dev libmicrohttpd-dev
  prometheus-cpp-dev zlib1g-dev libgtest-dev libgmock-dev
  # the engine
  libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc libeigen3-dev libisal-dev libzip-dev
  libpng-dev libjpeg62-turbo-dev libcsv-dev
  # the charts of a run's page
  libjs-chart.js
)
test_packages=(
  # readers of what the programs print: pages, completion scripts, manual pages
  chromium-headless-shell zsh fish groff-base
  # the language of Argo CD's scripts
  lua5.1
)
cluster_packages=(
  runc containernetworking-plugins buildah iptables conntrack openssl mmdebstrap iproute2 curl ca-certificates python3-pip
)

packages=("${build_packages[@]}" "${test_packages[@]}") cuda=no
for argument in "$@"; do
  case "$argument" in
    --cluster) packages+=("${cluster_packages[@]}") ;;
    --build) packages=("${build_packages[@]}") ;;
    --cuda) cuda=yes ;;
    *) echo "setup.sh: unknown argument '$argument' (known: --cluster, --build, --cuda)" >&2; exit 2 ;;
  esac
done

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || echo absent)
  [ "$state" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "setup: all ${#packages[@]} packages are installed"
else
  sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "setup.sh: needs root or sudo to install: ${missing[*]}" >&2; exit 1; }
    sudo=(sudo)
  fi
  echo "setup: installing ${missing[*]}"
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
  echo "setup: installed ${#missing[@]} packages"
fi

if [ "$cuda" = yes ]; then
  cd "$(dirname "${BASH_SOURCE[0]}")/.."
  python=$(scripts/venv.sh trainer/backend/cuda/requirements.txt)
  echo "setup: a CUDA toolkit is in ${python%/bin/python}"
fi
