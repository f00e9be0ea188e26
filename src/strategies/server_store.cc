#include "strategies/server_store.h"

#include <algorithm>
#include <string>
#include <utility>

#include "ps/tables/flat_table.h"
#include "runtime/span.h"
#include "strata/core/error.h"
#include "strata/core/log.h"

namespace strata::detail {
namespace {

using Entry = ParameterStore::Entry;

class ServerTable final : public ParameterStore::Table {
 public:
  ServerTable(std::shared_ptr<ps::FlatTable> table, std::vector<Entry> entries,
              const ServerStore::Options& options)
      : table_(std::move(table)),
        entries_(std::move(entries)),
        precision_(options.precision),
        chief_(options.chief),
        pulls_ahead_(options.pull_ahead) {}
  /// The servers write into tensors of this step until they have answered.
  ~ServerTable() override {
    if (!begun_.defined()) return;
    try {
      (void)table_->finish_push_pull();
    } catch (const Error& error) {
      STRATA_LOG(kWarning) << "[ps] the last push of table '" << table_->spec().name
                           << "': " << error.what();
    }
  }
  ServerTable(const ServerTable&) = delete;
  ServerTable& operator=(const ServerTable&) = delete;

  /// A step of all is the mean over all examples: each process brings the sum over its own.
  double gradient_factor(double weight) const override {
    return together() && weight > 0 ? weight : 1;
  }
  void step(const ParameterStore::Gradients& gradients, const at::Tensor& values) override {
    const Span span(span_observer(), "push and pull of ", table_->spec().name);
    try {
      table_->push_pull(gradients.values, values,
                        push_options(gradients, together() ? gradients.weight : 0));
    } catch (const Error& error) {
      rethrow(error, gradients.values);
    }
  }

  bool reads_on_this_core() const override { return table_->reads_on_this_core(); }
  bool pulls_ahead() const override { return pulls_ahead_; }
  void begin_step(const ParameterStore::Gradients& gradients, const at::Tensor& values) override {
    table_->begin_push_pull(gradients.values, values, push_options(gradients, 0));
    begun_ = gradients.values;
  }
  void finish_step() override {
    const Span span(span_observer(), "push and pull of ", table_->spec().name);
    const at::Tensor gradients = std::exchange(begun_, {});
    try {
      (void)table_->finish_push_pull();
    } catch (const Error& error) {
      rethrow(error, gradients);
    }
  }

  void read(const at::Tensor& values) override { table_->read(values); }
  int64_t updates() const override { return table_->version(); }
  at::Tensor read_slot(int slot) override { return table_->read_slot(slot); }
  void write(const at::Tensor& values, int64_t updates) override {
    if (chief_) table_->write(values, updates);
  }
  void write_slot(int slot, const at::Tensor& values) override {
    if (chief_) table_->write_slot(slot, values);
  }

 private:
  bool together() const { return table_->spec().consistency.kind == ps::Consistency::kSynchronous; }

  ps::PushOptions push_options(const ParameterStore::Gradients& gradients, double weight) const {
    return {.learning_rate = gradients.learning_rate,
            .weight = weight,
            .weight_decay = gradients.weight_decay,
            .clip_value = gradients.clip_value,
            .precision = precision_};
  }

  [[noreturn]] void rethrow(const Error& error, const at::Tensor& gradients) const {
    if (error.code() != ErrorCode::kInvalidArgument) throw error;
    throw Error(error.code(), str_cat(error.what(), not_finite(gradients)));
  }

  /// For people, who know variables by their names.
  std::string not_finite(const at::Tensor& gradients) const {
    for (size_t i = 0; i < entries_.size(); ++i) {
      const int64_t end = i + 1 < entries_.size() ? entries_[i + 1].begin : gradients.numel();
      const at::Tensor part = gradients.slice(0, entries_[i].begin, end);
      if (!part.isfinite().all().item<bool>()) {
        return str_cat(". It is of the variable '", entries_[i].name, "'");
      }
    }
    return {};
  }

  const std::shared_ptr<ps::FlatTable> table_;
  const std::vector<Entry> entries_;
  const ps::PushPrecision precision_;
  const bool chief_;
  const bool pulls_ahead_;
  at::Tensor begun_;  // the gradients whose answer has not been taken
};

/// The places of variables as places in the table; gaps belong to what precedes them.
std::vector<ps::TablePart> parts_of(const ps::Placement& placement,
                                    const std::vector<Entry>& entries, int64_t elements) {
  std::vector<ps::TablePart> parts;
  for (const ps::Piece& piece : placement.pieces) {
    const int64_t begin = parts.empty() ? 0 : entries[piece.variable].begin + piece.begin;
    if (!parts.empty()) parts.back().end = begin;
    if (parts.empty() || parts.back().server != piece.server) {
      parts.push_back({.begin = begin, .end = begin, .server = piece.server});
    }
  }
  if (!parts.empty()) parts.back().end = elements;
  return parts;
}

std::vector<ps::TablePart> no_weight_decay_of(const std::vector<Entry>& entries, int64_t elements) {
  std::vector<ps::TablePart> parts;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].decays) continue;
    const int64_t end = i + 1 < entries.size() ? entries[i + 1].begin : elements;
    parts.push_back({.begin = entries[i].begin, .end = end});
  }
  return parts;
}

}  // namespace

std::unique_ptr<ParameterStore::Table> ServerStore::make_table(const tensor::RuleOptions& rule,
                                                               const std::vector<Entry>& entries,
                                                               const at::Tensor& values) {
  std::vector<ps::VariableSpec> variables;
  for (const Entry& entry : entries) {
    variables.push_back({.name = entry.name, .shape = entry.shape, .dtype = values.scalar_type()});
  }
  const ps::Placement placement = ps::place(variables, client_->num_servers(), options_.placement);
  // Processes make their optimizers in the same order.
  auto table = client_->create_flat(
      {.name = str_cat("optimizer ", ++made_, '/', c10::toString(values.scalar_type())),
       .dtype = values.scalar_type(),
       .rule = rule,
       .consistency = options_.consistency,
       .backup = options_.backup,
       .parts = parts_of(placement, entries, values.numel()),
       .no_weight_decay = no_weight_decay_of(entries, values.numel())},
      values, options_.chief);
  return std::make_unique<ServerTable>(std::move(table), entries, options_);
}

}  // namespace strata::detail
