// The flags of trainyard-operator.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
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
  std::string native_pod_groups = "v1beta1";
  int progress_seconds = 10;
  std::string progress = "auto";
  bool watch_nodes = true;
  int force_delete_seconds = 60;
  int stalled_minutes = 15;
  std::string log_level = "info";
  std::string log_format = "text";
};

// Adds the flags to `app`; parsing it sets `options`. A flag that is given twice has its last
// value, so that a chart's extra arguments replace its own.
void AddFlags(CLI::App& app, Options& options);

// What is wrong with the command line, one line a mistake, in the words of our other errors.
// `app` has been parsed as far as `error`.
std::string DescribeMistake(const CLI::App& app, const CLI::ParseError& error);

}  // namespace trainyard::control
