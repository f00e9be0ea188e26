#include "suites/step_model_systems.h"

#include <algorithm>
#include <string>
#include <utility>

#include "strata/core/str_cat.h"

namespace strata::bench {
namespace {

namespace fs = std::filesystem;
using Build = BenchOptions::Build;
using Arguments = std::vector<std::string>;

/// Cases whose model is written with torch::nn's modules, too.
bool has_modules(const StepCase& step_case) {
  return !step_case.bf16 && (step_case.model == "dense" || step_case.model == "transformer");
}
bool has_encoder(const StepCase& step_case) {
  return has_modules(step_case) && step_case.model == "transformer";
}
/// Where scores of attention as a tensor are worth a look: 512 tokens.
bool has_explicit_attention(const StepCase& step_case) {
  return has_encoder(step_case) && step_case.features > 256;
}

class ModelCatalogue {
 public:
  ModelCatalogue(const BenchOptions& options, const StepCase& step_case, std::string data,
                 std::vector<int> cpus)
      : options_(options),
        case_(step_case),
        data_(std::move(data)),
        both_(std::move(cpus)),
        one_{both_.back()},
        python_(options, {"--case", case_.model, "--data", data_}) {}

  std::vector<SystemSpec> all() const {
    std::vector<SystemSpec> systems = {strata("strata-1", 1), strata("strata-2", 2), independent(),
                                       torch("torch-1", {"eager"}, {}),
                                       torch("torch-1-best", {"eager", "compiled"}, {}), ddp(),
                                       // Keras's fit refuses XLA under MirroredStrategy.
                                       tensorflow("tf-1", 1, {"fit", "fit-xla"}),
                                       tensorflow("tf-mirrored-2", 2, {"fit", "call"}), jax()};
    if (case_.bf16) {
      systems.push_back(strata("strata-1-float32", 1, {}, Build::kThis, false));
    } else {
      systems.push_back(strata("strata-portable-1", 1, {"--bits", "portable"}));
    }
    if (has_modules(case_)) {
      systems.push_back(strata("strata-nn-1", 1, {"--layers", "torch"}));
      systems.push_back(strata("strata-nn-2", 2, {"--layers", "torch"}));
      systems.push_back(
          strata("strata-nn-function-1", 1, {"--layers", "torch", "--function", "yes"}));
    }
    if (has_encoder(case_)) {
      systems.push_back(strata("strata-encoder-1", 1, {"--layers", "encoder"}));
    }
    if (has_explicit_attention(case_)) {
      systems.push_back(torch("torch-1-eager-attention", {"eager"}, {"--attention", "explicit"}));
    }
    if (!options_.against.empty()) {
      systems.push_back(strata("other-1", 1, {}, Build::kOther, case_.bf16));
      systems.push_back(strata("other-2", 2, {}, Build::kOther, case_.bf16));
    }
    return systems;
  }

 private:
  double examples(int replicas) const { return static_cast<double>(replicas) * case_.batch; }
  bool images() const { return case_.rows == StepCase::Rows::kPhotos; }

  Arguments for_python(Arguments arguments) const {
    if (case_.bf16) arguments.insert(arguments.end(), {"--bf16", "1"});
    return arguments;
  }

  ProcessSpec strata_process(int replicas, std::vector<int> cpus, const Arguments& more,
                             Build build, bool bf16) const {
    Arguments arguments = {
        "worker", "--case", case_.model, "--data", data_, "--replicas", std::to_string(replicas)};
    if (bf16) arguments.insert(arguments.end(), {"--bf16", "yes"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return {options_.worker(build, arguments), {}, std::move(cpus)};
  }
  SystemSpec strata(const std::string& name, int replicas, const Arguments& more, Build build,
                    bool bf16) const {
    return {name,
            examples(replicas),
            {{"", {strata_process(replicas, replicas == 1 ? one_ : both_, more, build, bf16)}}},
            {}};
  }
  SystemSpec strata(const std::string& name, int replicas, const Arguments& more = {}) const {
    return strata(name, replicas, more, Build::kThis, case_.bf16);
  }
  SystemSpec independent() const {
    Variant variant;
    for (const int cpu : both_) {
      variant.processes.push_back(strata_process(1, {cpu}, {}, Build::kThis, case_.bf16));
    }
    return {"independent-2", examples(2), {variant}, {}};
  }

  /// For images each of `modes` in both memory formats.
  SystemSpec torch(const std::string& name, const std::vector<std::string>& modes,
                   const Arguments& more) const {
    SystemSpec system{name, examples(1), {}, python_.missing("torch", "torch_loop.py")};
    for (const std::string& mode : modes) {
      for (const char* channels_last : {"0", "1"}) {
        if (channels_last[0] == '1' && !images()) continue;
        Arguments arguments = {"--compile", mode == "compiled" ? "1" : "0", "--channels-last",
                               channels_last};
        arguments.insert(arguments.end(), more.begin(), more.end());
        system.variants.push_back(
            {mode + (channels_last[0] == '1' ? "-channels-last" : ""),
             {python_.process("torch", "torch_loop.py", for_python(arguments), one_)}});
      }
    }
    return system;
  }
  SystemSpec ddp() const {
    SystemSpec system{"ddp-2", examples(2), {}, python_.missing("torch", "torch_loop.py")};
    for (const char* channels_last : {"0", "1"}) {
      if (channels_last[0] == '1' && !images()) continue;
      Variant variant{channels_last[0] == '1' ? "channels-last" : "contiguous", {}};
      const std::string store = str_cat(data_, ".store-", variant.name);
      for (size_t rank = 0; rank < both_.size(); ++rank) {
        variant.processes.push_back(
            python_.process("torch", "torch_loop.py",
                            for_python({"--rank", std::to_string(rank), "--world", "2", "--store",
                                        store, "--channels-last", channels_last}),
                            {both_[rank]}));
      }
      system.variants.push_back(std::move(variant));
    }
    return system;
  }
  SystemSpec tensorflow(const std::string& name, int replicas,
                        const std::vector<std::string>& modes) const {
    SystemSpec system{name, examples(replicas), {}, python_.missing("tf", "keras_train.py")};
    for (const std::string& mode : modes) {
      system.variants.push_back(
          {mode,
           {python_.process(
               "tf", "keras_train.py",
               for_python({"--replicas", std::to_string(replicas), "--mode",
                           mode.substr(0, mode.find('-')), "--xla", mode == "fit-xla" ? "1" : "0"}),
               replicas == 1 ? one_ : both_)}});
    }
    return system;
  }
  SystemSpec jax() const {
    SystemSpec system{"jax-1", examples(1), {}, python_.missing("jax", "jax_train.py")};
    for (const char* mode : {"step", "scan"}) {
      // XLA's convolutions on a CPU lose their fast path inside a loop.
      if (images() && mode[1] == 'c') continue;
      system.variants.push_back(
          {mode, {python_.process("jax", "jax_train.py", for_python({"--mode", mode}), one_)}});
    }
    return system;
  }

  const BenchOptions& options_;
  const StepCase& case_;
  const std::string data_;
  const std::vector<int> both_;
  const std::vector<int> one_;
  const PythonPeers python_;
};

}  // namespace

std::vector<SystemSpec> step_model_systems(const BenchOptions& options, const StepCase& step_case,
                                           const fs::path& data, const std::vector<int>& cpus) {
  return ModelCatalogue(options, step_case, data.string(), cpus).all();
}

std::vector<Ratio> step_model_ratios(const StepCase& step_case, bool against) {
  std::vector<Ratio> ratios = {{"vs_torch", "strata-1", "torch-1"},
                               {"vs_torch_best", "strata-1", "torch-1-best"},
                               {"vs_tf", "strata-1", "tf-1"},
                               {"vs_jax", "strata-1", "jax-1"},
                               {"vs_ddp", "strata-2", "ddp-2"},
                               {"vs_tf_mirrored", "strata-2", "tf-mirrored-2"},
                               {"vs_limit", "strata-2", "independent-2"}};
  const auto add = [&](const char* metric, const char* tested, const char* baseline) {
    ratios.push_back({metric, tested, baseline});
  };
  if (step_case.bf16) {
    add("vs_float32", "strata-1", "strata-1-float32");
  } else {
    add("vs_native", "strata-portable-1", "strata-1");
  }
  if (has_modules(step_case)) {
    add("vs_torch", "strata-nn-1", "torch-1");
    add("vs_torch_best", "strata-nn-1", "torch-1-best");
    add("vs_ddp", "strata-nn-2", "ddp-2");
    add("vs_eager", "strata-nn-function-1", "strata-nn-1");
  }
  if (has_encoder(step_case)) add("vs_torch", "strata-encoder-1", "torch-1");
  if (has_explicit_attention(step_case)) {
    add("vs_torch_eager_attention", "strata-1", "torch-1-eager-attention");
    add("vs_torch_eager_attention", "strata-nn-1", "torch-1-eager-attention");
  }
  if (against) {
    add("vs_other", "strata-1", "other-1");
    add("vs_other", "strata-2", "other-2");
  }
  return ratios;
}

void add_peaks(std::vector<SystemSpec>& systems) {
  const auto of = [&](const char* name) {
    return std::ranges::find(systems, name, &SystemSpec::name);
  };
  std::vector<SystemSpec> peaks;
  for (const auto& [name, from] : {std::pair("peak-1", "strata-1"), {"peak-2", "independent-2"}}) {
    const auto found = of(from);
    if (found == systems.end()) continue;
    SystemSpec peak = *found;
    peak.name = name;
    for (ProcessSpec& process : peak.variants.front().processes) {
      process.argv.insert(process.argv.end(), {"--peak", "yes"});
      // They multiply where it can be counted.
      process.environment.emplace_back("STRATA_KERNELS", "libtorch");
    }
    peaks.push_back(std::move(peak));
  }
  for (SystemSpec& system : systems) {
    size_t cores = 0;
    if (system.variants.empty()) continue;
    for (const ProcessSpec& process : system.variants.front().processes) {
      cores += process.cpus.size();
    }
    system.limit = cores == 1 ? "peak-1" : "peak-2";
  }
  systems.insert(systems.end(), peaks.begin(), peaks.end());
}

}  // namespace strata::bench
