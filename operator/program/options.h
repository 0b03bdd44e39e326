// The flags of trainyard-operator.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard_version.h"

namespace trainyard::control {

struct Options {
  std::string kubeconfig;  // empty: in the cluster
  std::string context;
  std::vector<std::string> namespaces;  // empty: all
  int workers = 16;
  int parallel_calls = 48;
  double qps = 500;
  double burst = 1000;
  bool leader_elect = true;
  std::string leader_namespace;  // empty: the own one
  std::string metrics_host = "0.0.0.0";
  int metrics_port = 8080;
  std::string page_address;  // HOST:PORT; empty: no page
  std::vector<std::string> page_hosts;
  std::string trainer_image = "trainyard/trainer:" TRAINYARD_IMAGE_TAG;
  bool keys_in_secrets = false;
  int progress_seconds = 10;
  std::string progress = "auto";
  bool watch_nodes = true;
  int force_delete_seconds = 60;
  int stalled_minutes = 15;
  std::string log_level = "info";
  std::string log_format = "text";
};

// "127.0.0.1:8081" or "[::1]:8081" → host and port; nothing for any other text.
struct HostAndPort {
  std::string host;
  int port = 0;  // 0: any free one
};
std::optional<HostAndPort> ParseHostAndPort(std::string_view text);

// Adds the flags to `app`; parsing it sets `options`.
void AddFlags(CLI::App& app, Options& options);

}  // namespace trainyard::control
