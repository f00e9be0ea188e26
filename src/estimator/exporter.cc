#include "strata/estimator/exporter.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "estimator/estimator_impl.h"
#include "estimator/eval_events.h"
#include "estimator/export_folder.h"
#include "strata/checkpoint/checkpoint.h"
#include "strata/checkpoint/safetensors.h"
#include "strata/core/error.h"
#include "strata/core/file_system.h"
#include "strata/core/json.h"

namespace strata::estimator {
namespace {

constexpr std::string_view kExportedGroup = "model/";

/// Folders of exports have names of ten digits; folders with other names are not touched.
bool is_export_name(const std::string& name) {
  return name.size() == 10 && name.find_first_not_of("0123456789") == std::string::npos;
}

void check_export_options(const ExporterOptions& options) {
  STRATA_CHECK(options.exports_to_keep >= 0, kInvalidArgument,
               "[estimator] Exporter: got exports_to_keep ", options.exports_to_keep,
               "; expected a positive number, or 0 for all");
  STRATA_CHECK(options.export_fn, kInvalidArgument,
               "[estimator] Exporter: got no export_fn; expected export_checkpoint, or a function "
               "that writes the model");
}

void remove_old_exports(const std::string& export_path, int64_t keep) {
  if (keep == 0) return;
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(export_path)) {
    const std::string name = entry.path().filename().string();
    if (is_export_name(name)) names.push_back(name);
  }
  std::ranges::sort(names);
  const auto count = static_cast<int64_t>(names.size());
  for (int64_t i = 0; i < count - keep; ++i) {
    std::filesystem::remove_all(join_path(export_path, names[static_cast<size_t>(i)]));
  }
}

std::string export_and_clean(const ExporterOptions& options, Estimator& estimator,
                             const std::string& export_path, const std::string& checkpoint_path) {
  std::string written = options.export_fn(estimator, export_path, checkpoint_path);
  if (file_system_of(export_path).info(export_path)) {
    remove_old_exports(export_path, options.exports_to_keep);
  }
  return written;
}

}  // namespace

Exporter::Exporter(std::string name) : name_(std::move(name)) {
  STRATA_CHECK(!name_.empty(), kInvalidArgument, "[estimator] Exporter: got an empty name; ",
               "expected one, which is that of its folder");
}
Exporter::~Exporter() = default;

LatestExporter::LatestExporter(ExporterOptions options)
    : Exporter(options.name), options_(std::move(options)) {
  check_export_options(options_);
}

std::optional<std::string> LatestExporter::export_model(Estimator& estimator,
                                                        const std::string& export_path,
                                                        const std::string& checkpoint_path,
                                                        const Evaluation& /*evaluation*/,
                                                        bool /*is_the_final_export*/) {
  return export_and_clean(options_, estimator, export_path, checkpoint_path);
}

FinalExporter::FinalExporter(std::string name, ExportFn export_fn)
    : Exporter(std::move(name)), export_fn_(std::move(export_fn)) {
  check_export_options({.name = this->name(), .export_fn = export_fn_});
}

std::optional<std::string> FinalExporter::export_model(Estimator& estimator,
                                                       const std::string& export_path,
                                                       const std::string& checkpoint_path,
                                                       const Evaluation& /*evaluation*/,
                                                       bool is_the_final_export) {
  if (!is_the_final_export) return std::nullopt;
  return export_fn_(estimator, export_path, checkpoint_path);
}

bool loss_smaller(const Evaluation& best, const Evaluation& evaluation) {
  return evaluation.at("loss") < best.at("loss");
}

BestExporter::BestExporter(ExporterOptions options, CompareFn compare_fn, std::string eval_name)
    : Exporter(options.name),
      options_(std::move(options)),
      compare_(std::move(compare_fn)),
      eval_name_(std::move(eval_name)) {
  check_export_options(options_);
}

std::optional<std::string> BestExporter::export_model(Estimator& estimator,
                                                      const std::string& export_path,
                                                      const std::string& checkpoint_path,
                                                      const Evaluation& evaluation,
                                                      bool /*is_the_final_export*/) {
  if (!has_read_events_) {
    for (auto& [step, metrics] : detail::evaluations_in(estimator.eval_dir(eval_name_))) {
      // The evaluation at hand is among the events already.
      if (step == evaluation.global_step) continue;
      Evaluation earlier{.metrics = std::move(metrics), .global_step = step};
      if (!best_ || compare_(*best_, earlier)) best_ = std::move(earlier);
    }
    has_read_events_ = true;
  }
  if (best_ && !compare_(*best_, evaluation)) return std::nullopt;
  best_ = evaluation;
  return export_and_clean(options_, estimator, export_path, checkpoint_path);
}

std::string export_checkpoint(Estimator& /*estimator*/, const std::string& export_path,
                              const std::string& checkpoint_path) {
  NamedTensors tensors;
  for (const CheckpointVariable& variable : list_variables(checkpoint_path)) {
    if (!variable.name.starts_with(kExportedGroup)) continue;
    tensors.emplace_back(variable.name.substr(kExportedGroup.size()),
                         load_variable(checkpoint_path, variable.name));
  }
  Json json = Json::object();
  json.set("global_step", detail::step_of_checkpoint(checkpoint_path));
  return detail::write_export(export_path, "export_checkpoint", [&](const std::string& folder) {
    save_safetensors(join_path(folder, "variables.safetensors"), tensors);
    detail::write_text_file(join_path(folder, "model.json"), json.dump(2));
  });
}

}  // namespace strata::estimator
