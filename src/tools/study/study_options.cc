#include "tools/study/study_options.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "core/edit_distance.h"
#include "core/join.h"
#include "strata/core/error.h"
#include "tools/command_line.h"
#include "tools/study/study_networks.h"
#include "tools/study/tensorflow_peer.h"

namespace strata::tools {
namespace {

/// A network that learns the same few images by heart has gradients and activations of zero, which
/// CPU kernels leave out: faster steps than those of a training.
constexpr double kRateOfSpeed = 1e-6;
constexpr double kRateOfAccuracy = 0.01;

CommandHelp study_help() {
  return {
      .usage = "strata study --network NAME [options] | --from FILE",
      .description =
          R"(Measures how training scales: images/s of a network by strategy, replicas and parameter servers, as
tf_cnn_benchmarks and the studies made with it do. Several processes are started here; started by a launcher
(strata launch, TF_CONFIG, srun) it is a task of that cluster. docs/study.md says what is measured, and how.)",
      .examples = R"(examples:
  strata study --network resnet50 --replicas 2 --batch 8
  strata study --network inception3 --sweep replicas=1,2,4 ps=1,2,4 strategy=parameter_server,multi_worker --report study.html
  strata study --network resnet50 --data imagenet/ --batch 32 --json results.jsonl
  strata study --accuracy --sweep replicas=1,2,4 --epochs 4 --warmup-epochs 1
  strata launch --hosts a,b strata study --network resnet50 --json results.jsonl
  strata study --from one.jsonl,two.jsonl --report study.html
)"};
}

template <typename T>
bool parses(const std::string& text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    parts.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string one_of(const std::string& option, const std::string& got,
                   const std::vector<std::string>& words) {
  STRATA_CHECK(std::ranges::find(words, got) != words.end(), kInvalidArgument,
               "[strata study] got ", option, " ", got, "; expected one of ", join(words));
  return got;
}

/// tf_cnn_benchmarks' words for what is a strategy here.
struct VariableUpdate {
  const char* word;
  StudyStrategy alone;         ///< without parameter servers
  StudyStrategy with_servers;  ///< with --ps
  StudyPlacement placement;    ///< of variables on servers
};
constexpr VariableUpdate kUpdates[] = {
    {"parameter_server", StudyStrategy::kCentral, StudyStrategy::kParameterServer,
     StudyPlacement::kGreedy},
    {"replicated", StudyStrategy::kMirrored, StudyStrategy::kMirrored, StudyPlacement::kGreedy},
    {"distributed_replicated", StudyStrategy::kParameterServer, StudyStrategy::kParameterServer,
     StudyPlacement::kRoundRobin},
    {"distributed_all_reduce", StudyStrategy::kMultiWorker, StudyStrategy::kMultiWorker,
     StudyPlacement::kGreedy},
    {"collective_all_reduce", StudyStrategy::kMultiWorker, StudyStrategy::kMultiWorker,
     StudyPlacement::kGreedy},
    {"independent", StudyStrategy::kIndependent, StudyStrategy::kIndependent,
     StudyPlacement::kGreedy}};

/// Of other tools, and what has their place here.
constexpr std::pair<const char*, const char*> kOtherTools[] = {
    {"horovod", "collective_all_reduce (--strategy multi_worker)"},
    {"kungfu", "collective_all_reduce (--strategy multi_worker)"},
    {"byteps", "parameter_server (--strategy parameter_server)"}};

const VariableUpdate& variable_update_of(const std::string& word) {
  const auto name = [](const VariableUpdate& update) { return std::string(update.word); };
  const auto found = std::ranges::find(kUpdates, word, name);
  if (found != std::end(kUpdates)) return *found;
  std::string nearest;
  for (const auto& [other, ours] : kOtherTools) {
    if (word == other) nearest = ours;
  }
  if (nearest.empty()) {
    nearest = std::ranges::min_element(kUpdates, {}, [&](const VariableUpdate& update) {
                return detail::edit_distance(word, update.word);
              })->word;
  }
  throw Error(ErrorCode::kInvalidArgument,
              str_cat("[strata study] got --variable-update ", word, "; the nearest is ", nearest,
                      "; expected one of ", join(kUpdates, name)));
}

/// `replicas=1,2,4`, one key after the other.
class Sweep {
 public:
  void add(const std::string& word) {
    const size_t equals = word.find('=');
    STRATA_CHECK(equals != std::string::npos && equals + 1 < word.size(), kInvalidArgument,
                 "[strata study] got --sweep ", word, "; expected ", kExpected);
    const std::string key = word.substr(0, equals);
    STRATA_CHECK(std::ranges::find(kKeys, key) != std::end(kKeys), kInvalidArgument,
                 "[strata study] got --sweep ", word, "; expected ", kExpected);
    STRATA_CHECK(values_.emplace(key, parts_of(word.substr(equals + 1))).second, kInvalidArgument,
                 "[strata study] got ", key, " twice in --sweep; expected one list of each");
  }

  bool has(const std::string& key) const { return values_.contains(key); }
  const std::vector<std::string>& of(const std::string& key) const { return values_.at(key); }
  /// Ascending, each once.
  std::vector<int> numbers(const std::string& key) const {
    std::vector<int> numbers;
    for (const std::string& text : of(key)) {
      int number = 0;
      STRATA_CHECK(parses(text, number) && number >= 1, kInvalidArgument,
                   "[strata study] got --sweep ", key, "=", join(of(key), {}, ","),
                   "; expected numbers from 1 on, as ", key, "=1,2,4");
      numbers.push_back(number);
    }
    std::ranges::sort(numbers);
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    return numbers;
  }

 private:
  static constexpr const char* kExpected =
      "replicas=1,2,4, ps=1,2,4, strategy=NAME,NAME or network=NAME,NAME";
  static constexpr std::string_view kKeys[] = {"replicas", "ps", "strategy", "network"};

  std::map<std::string, std::vector<std::string>> values_;
};

/// What is read before the options are put together.
struct Given {
  std::string network = {};
  std::string strategy = {};
  std::string placement = {};
  std::string variable_update = {};
  std::string sweep = {};
  int replicas = 0;
  int servers = 0;
};

void choose_strategies(const Given& given, const Sweep& sweep, StudyOptions& options) {
  const bool any_servers = given.servers > 0 || sweep.has("ps");
  STRATA_CHECK(given.variable_update.empty() || given.strategy.empty(), kInvalidArgument,
               "[strata study] got --variable-update and --strategy; expected one of them");
  STRATA_CHECK(!sweep.has("strategy") || (given.strategy.empty() && given.variable_update.empty()),
               kInvalidArgument,
               "[strata study] got --sweep strategy and --strategy or --variable-update; expected "
               "one of them");
  if (!given.variable_update.empty()) {
    const VariableUpdate& update = variable_update_of(given.variable_update);
    options.strategies = {any_servers ? update.with_servers : update.alone};
    options.base.placement = update.placement;
  } else if (!given.strategy.empty()) {
    options.strategies = {strategy_of(given.strategy)};
  } else if (sweep.has("strategy")) {
    for (const std::string& word : sweep.of("strategy")) {
      options.strategies.push_back(strategy_of(word));
    }
  } else if (any_servers) {
    options.strategies = {StudyStrategy::kParameterServer};
  }
  const bool uses_servers =
      std::ranges::find(options.strategies, StudyStrategy::kParameterServer) !=
      options.strategies.end();
  STRATA_CHECK(!any_servers || uses_servers, kInvalidArgument,
               "[strata study] got parameter servers for ",
               join(options.strategies, [](StudyStrategy s) { return word_of(s); }),
               "; expected them with --strategy parameter_server alone");
  STRATA_CHECK(given.placement.empty() || options.strategies.empty() || uses_servers,
               kInvalidArgument, "[strata study] got --placement ", given.placement,
               " without --strategy parameter_server; expected both");
  if (!given.placement.empty()) options.base.placement = placement_of(given.placement);
}

void choose_numbers(const Given& given, const Sweep& sweep, StudyOptions& options) {
  STRATA_CHECK(given.replicas == 0 || !sweep.has("replicas"), kInvalidArgument,
               "[strata study] got --replicas and --sweep replicas; expected one of them");
  STRATA_CHECK(given.servers == 0 || !sweep.has("ps"), kInvalidArgument,
               "[strata study] got --ps and --sweep ps; expected one of them");
  options.has_replicas = given.replicas > 0 || sweep.has("replicas");
  options.replicas = {std::max(given.replicas, 1)};
  if (sweep.has("replicas")) options.replicas = sweep.numbers("replicas");
  if (given.servers > 0) options.servers = {given.servers};
  if (sweep.has("ps")) options.servers = sweep.numbers("ps");
  const bool one_device =
      std::ranges::find(options.strategies, StudyStrategy::kOneDevice) != options.strategies.end();
  STRATA_CHECK(!one_device || options.replicas == std::vector<int>{1}, kInvalidArgument,
               "[strata study] got ", join(options.replicas),
               " replicas for one_device; expected 1, or another --strategy");
}

void check_sizes(const StudyOptions& options) {
  for (const std::string& name : options.networks) {
    const StudyNetwork& network = study_network(name);
    STRATA_CHECK(options.base.image_size == 0 || options.base.image_size >= network.smallest,
                 kInvalidArgument, "[strata study] got --image-size ", options.base.image_size,
                 " for ", name, "; expected ", network.smallest, " at least");
  }
}

void check_accuracy(const StudyOptions& options) {
  if (!options.accuracy) return;
  for (const std::string& network : options.networks) {
    STRATA_CHECK(network == "resnet20" || network == "trivial", kInvalidArgument,
                 "[strata study] got --accuracy with --network ", network,
                 "; expected resnet20 or trivial, which take MNIST's images");
  }
  for (const StudyStrategy strategy : options.strategies) {
    STRATA_CHECK(strategy != StudyStrategy::kIndependent, kInvalidArgument,
                 "[strata study] got --accuracy with independent replicas, which train a model "
                 "each; expected another strategy");
    STRATA_CHECK(strategy != StudyStrategy::kParameterServer || options.base.optimizer == "sgd",
                 kInvalidArgument, "[strata study] got --optimizer ", options.base.optimizer,
                 " with parameter servers, which update parts of variables; expected sgd");
  }
  STRATA_CHECK(!options.limit, kInvalidArgument,
               "[strata study] got --limit with --accuracy, which measures no speed; expected one "
               "of them");
}

void check_tensorflow(const StudyOptions& options) {
  if (options.tensorflow.empty()) return;
  STRATA_CHECK(!options.accuracy, kInvalidArgument,
               "[strata study] got --tensorflow with --accuracy, which measures no speed; expected "
               "one of them");
  StudyOptions settled = options;
  if (settled.strategies.empty()) settled.strategies = {StudyStrategy::kMirrored};
  std::string reason;
  for (const Configuration& configuration : all_configurations(settled)) {
    reason = why_not_in_tensorflow(configuration);
    if (reason.empty()) return;
  }
  throw Error(ErrorCode::kInvalidArgument,
              str_cat("[strata study] got --tensorflow, which has nothing to do: ", reason,
                      "; expected resnet50, inception3, vgg16 or mobilenet_v2 by mirrored, "
                      "multi_worker or one_device"));
}

}  // namespace

std::string_view word_of(RateScaling scaling) {
  switch (scaling) {
    case RateScaling::kLinear:
      return "linear";
    case RateScaling::kSqrt:
      return "sqrt";
    case RateScaling::kNone:
      break;
  }
  return "none";
}

StudyOptions read_study_options(const std::vector<std::string>& words) {
  StudyOptions options;
  Configuration& base = options.base;
  Given given;
  std::string scaling = "linear";

  CommandLine line("strata study", study_help());
  line.text("--network", "NAME",
            "resnet50, inception3, vgg16, alexnet, mobilenet_v2, resnet20\n(CIFAR), trivial",
            given.network);
  line.text("--strategy", "NAME",
            "mirrored (default), multi_worker, parameter_server, central,\none_device, independent "
            "(processes that share nothing)",
            given.strategy);
  line.number("--replicas", "N", "how many (default: 1); a process each where there are workers",
              given.replicas, 1);
  line.number("--ps", "N", "parameter servers (default: 1)", given.servers, 1);
  line.text("--placement", "RULE",
            "of variables on servers: greedy (default), round_robin, sharded", given.placement);
  line.yes_or_no("--cross-replica-sync",
                 "parameter servers: a step adds all workers' gradients\n(default: yes)",
                 base.synchronous);
  line.text("--variable-update", "NAME",
            "instead of --strategy, in tf_cnn_benchmarks' words:\nparameter_server, replicated, "
            "distributed_replicated,\ndistributed_all_reduce, collective_all_reduce, independent",
            given.variable_update);
  line.text("--sweep", "KEY=A,B ...",
            "all of replicas=1,2,4 ps=1,2,4 strategy=A,B network=A,B; of the\nnumbers of servers "
            "the fastest is chosen for each number of replicas",
            given.sweep);
  line.number("--batch", "N", "images of a replica (default: the network's)", base.batch, 0);
  line.option("--dtype", "NAME", "float32 (default), bfloat16, float16: of the computing",
              [&](const std::string& got) {
                base.dtype = one_of("--dtype", got, {"float32", "bfloat16", "float16"});
              });
  line.text("--data", "FOLDER",
            "TFRecord files in ImageNet's layout, or a folder of images for\neach class (default: "
            "synthetic); with --accuracy MNIST's files",
            base.data);
  line.yes_or_no("--compare-input", "real images: measures synthetic ones beside (default: yes)",
                 options.compare_input);
  line.number("--image-size", "N", "rows and columns (default: the network's)", base.image_size, 0);
  line.number("--classes", "N", "of the network (default: its own)", base.classes, 0);
  line.option("--device", "cpu|gpu", "of the replicas (default: GPUs if there are any)",
              [&](const std::string& got) {
                base.device = one_of("--device", got, {"cpu", "gpu"});
              });
  line.number(
      "--threads", "N",
      "of a replica on CPUs (default: as many for all configurations as\nthe cores give the "
      "most replicas)",
      base.threads, 0);
  line.number("--warmup", "N", "steps before the first that count (default: 10)", base.warmup, 0);
  line.number("--steps", "N", "steps that are timed (default: 100)", base.steps, 1);
  line.number("--repeat", "N", "how often they are timed, for the spread (default: 3)", base.repeat,
              1);
  line.number("--display-every", "N", "steps between two lines of progress (default: 10; 0: none)",
              base.display_every, 0);
  line.flag("--limit", "beside 2 replicas: two processes that share nothing, in turns",
            options.limit);
  line.text("--tensorflow", "PYTHON",
            "beside: the same in TensorFlow (that Python's), in turns, where it\ncan do the same",
            options.tensorflow);
  line.flag("--accuracy", "trains resnet20 on MNIST at each number of replicas, and tests it",
            options.accuracy);
  line.number("--epochs", "N", "--accuracy: passes over the images (default: 1)",
              options.training.epochs, 1);
  line.number("--examples", "N", "--accuracy: images to train with (default: all)",
              options.training.examples, 1);
  line.option("--optimizer", "NAME", "sgd (default), lamb, lars", [&](const std::string& got) {
    base.optimizer = one_of("--optimizer", got, {"sgd", "lamb", "lars"});
  });
  line.option("--learning-rate", "X",
              "of one replica's batch (default: 1e-6, which leaves the weights of the\nbeginning; "
              "--accuracy: 0.01)",
              [&](const std::string& got) {
                STRATA_CHECK(parses(got, base.learning_rate) && base.learning_rate > 0,
                             kInvalidArgument, "[strata study] got --learning-rate ", got,
                             "; expected a number above 0");
              });
  line.option("--scale-learning-rate", "RULE",
              "--accuracy: with the replicas, linear (default), sqrt, none",
              [&](const std::string& got) {
                scaling = one_of("--scale-learning-rate", got, {"linear", "sqrt", "none"});
              });
  line.option("--warmup-epochs", "X",
              "--accuracy: from --learning-rate up to the scaled one (default: 0)",
              [&](const std::string& got) {
                STRATA_CHECK(parses(got, options.training.warmup_epochs) &&
                                 options.training.warmup_epochs >= 0,
                             kInvalidArgument, "[strata study] got --warmup-epochs ", got,
                             "; expected a number that is not negative");
              });
  line.text("--json", "FILE", "writes a line of JSON for each configuration", options.json);
  line.text("--report", "FILE.html", "writes a page with charts", options.report);
  line.list("--from", "FILE,...", "shows results of --json again, instead of measuring",
            options.from);
  line.text("--results", "FOLDER", "of a task that this command has started", options.results);
  base.device = "";
  if (!line.read(words)) {
    options.help = line.help();
    return options;
  }
  Sweep sweep;
  if (!given.sweep.empty()) sweep.add(given.sweep);
  for (const std::string& word : line.operands()) {
    STRATA_CHECK(!given.sweep.empty(), kInvalidArgument, "[strata study] got ", word,
                 "; expected options alone, and lists behind --sweep");
    sweep.add(word);
  }
  if (!options.from.empty()) {
    STRATA_CHECK(given.network.empty() && given.sweep.empty(), kInvalidArgument,
                 "[strata study] got --from with --network or --sweep; expected results or what to "
                 "measure");
    return options;
  }
  if (options.accuracy && given.network.empty()) given.network = "resnet20";
  STRATA_CHECK(!given.network.empty() != sweep.has("network"), kInvalidArgument,
               given.network.empty()
                   ? "[strata study] got no network; expected --network resnet50 or so"
                   : "[strata study] got --network and --sweep network; expected one of them");
  options.networks = sweep.has("network") ? sweep.of("network") : std::vector{given.network};
  choose_strategies(given, sweep, options);
  choose_numbers(given, sweep, options);
  check_sizes(options);
  options.training.scaling = scaling == "linear" ? RateScaling::kLinear
                             : scaling == "sqrt" ? RateScaling::kSqrt
                                                 : RateScaling::kNone;
  check_accuracy(options);
  STRATA_CHECK(
      !options.limit || std::ranges::find(options.replicas, 2) != options.replicas.end(),
      kInvalidArgument,
      "[strata study] got --limit without 2 replicas, which it is measured beside; expected "
      "--replicas 2, or a sweep with 2");
  check_tensorflow(options);
  return options;
}

Configuration configuration_of(const StudyOptions& options, const std::string& network,
                               StudyStrategy strategy, int replicas, int servers) {
  const StudyNetwork& sizes = study_network(network);
  Configuration configuration = options.base;
  configuration.network = network;
  configuration.strategy = strategy;
  configuration.replicas = replicas;
  configuration.servers = strategy == StudyStrategy::kParameterServer ? servers : 0;
  if (configuration.batch == 0) configuration.batch = sizes.batch;
  if (configuration.image_size == 0) configuration.image_size = sizes.image_size;
  if (configuration.classes == 0) configuration.classes = sizes.classes;
  if (configuration.learning_rate == 0) {
    configuration.learning_rate = options.accuracy ? kRateOfAccuracy : kRateOfSpeed;
  }
  return configuration;
}

std::vector<Configuration> all_configurations(const StudyOptions& options) {
  std::vector<Configuration> all;
  for (const std::string& network : options.networks) {
    for (const StudyStrategy strategy : options.strategies) {
      std::vector<int> servers = {0};
      if (strategy == StudyStrategy::kParameterServer) servers = options.servers;
      if (servers.empty()) servers = {1};
      for (const int replicas : options.replicas) {
        for (const int count : servers) {
          all.push_back(configuration_of(options, network, strategy, replicas, count));
        }
      }
    }
  }
  return all;
}

}  // namespace strata::tools
