#pragma once

#include <map>
#include <string>
#include <vector>

#include "strata/cluster/cluster_spec.h"
#include "tools/launch/gpu_shares.h"
#include "tools/launch/host_list.h"
#include "tools/launch/supervisor.h"

namespace strata::tools {

/// How tasks are started on other hosts.
struct RemoteOptions {
  std::string ssh = "ssh";     ///< words for a shell: "ssh -p 2222 -i key"
  std::string directory = {};  ///< where programs start; empty: where the launcher was, or home
  int port = 0;                ///< of each host's first task; 0: one that is drawn
};

/// What `strata launch` was asked for.
struct LaunchOptions {
  std::vector<std::string> command;  ///< the program and its arguments
  int workers = 0;                   ///< the chief among them
  std::vector<Host> hosts = {};      ///< where they run; empty: here
  RemoteOptions remote = {};         ///< of `hosts`
  bool chief = false;
  int ps = 0;
  bool evaluator = false;
  std::map<std::string, std::string> environment = {};
  GpuSharing gpus = {};
  bool tls = false;
  bool secret = true;  ///< of this run alone, unless the environment gives one
  std::string log_folder = {};
  bool pin = true;
  bool dry_run = false;
  std::string help = {};  ///< its text, where that is asked for, and nothing else
  SupervisorOptions supervisor = {};

  /// Chief, workers, ps, evaluator.
  std::vector<cluster::TaskId> tasks() const;
};

/// @param words  What follows `strata launch`.
/// @throws Error  kInvalidArgument: quotes the word that is wrong.
LaunchOptions read_launch_options(std::vector<std::string> words);

}  // namespace strata::tools
