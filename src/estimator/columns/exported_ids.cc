#include "estimator/columns/exported_ids.h"

#include "strata/core/error.h"

namespace strata::feature_column::detail {
namespace {

thread_local ExportedIds* exported_here = nullptr;

/// A model_fn may make its columns anew in each call.
bool are_same(const ColumnImpl& a, const ColumnImpl& b) {
  return &a == &b || (a.name() == b.name() && a.describe() == b.describe());
}

}  // namespace

ExportedIds::ExportedIds() { exported_here = this; }
ExportedIds::~ExportedIds() { exported_here = nullptr; }
ExportedIds* ExportedIds::current() { return exported_here; }

ExportedIds::Suspended::Suspended() : outer_(std::exchange(exported_here, nullptr)) {}
ExportedIds::Suspended::~Suspended() { exported_here = outer_; }

void ExportedIds::add(const ColumnImpl& column, int64_t most) {
  for (const Column& each : columns_) {
    if (are_same(*each.column, column)) return;
  }
  columns_.push_back({column.shared_from_this(), most});
}

Entries ExportedIds::find(const ColumnImpl& column) const {
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (are_same(*columns_[i].column, column)) return {.ids = given_.at(i)};
  }
  throw Error(ErrorCode::kFailedPrecondition,
              str_cat("[estimator] export_saved_model: the model_fn asks for the column '",
                      column.name(), "' in a later call and not in its first one"));
}

}  // namespace strata::feature_column::detail
