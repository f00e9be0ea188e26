#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "estimator/columns/column_impl.h"

namespace strata::feature_column::detail {

/// The ids of categorical columns while a model is exported, on this thread. A saved graph cannot
/// look texts up, so ids are inputs of it, which the program that loads it computes with the same
/// columns. The first call of the model finds out which columns there are; while the graph is
/// recorded they get what `give` has set.
class ExportedIds {
 public:
  struct Column {
    std::shared_ptr<const ColumnImpl> column;
    int64_t most = 0;  ///< Entries of a row.
  };

  ExportedIds();
  ~ExportedIds();
  ExportedIds(const ExportedIds&) = delete;
  ExportedIds& operator=(const ExportedIds&) = delete;
  /// Null: no model is being exported.
  static ExportedIds* current();

  /// Of the model's first call, in the order in which it asked for them.
  const std::vector<Column>& columns() const { return columns_; }
  /// @param ids  int64 `[rows, most]`, for each of the columns.
  void give(std::vector<at::Tensor> ids) { given_ = std::move(ids); }

  /// @param compute  Gives the entries as they are without an export.
  template <class Compute>
  Entries entries(const ColumnImpl& column, const Compute& compute) {
    if (!given_.empty()) return find(column);
    const Suspended suspended;  // columns within this one are part of it
    const Entries entries = compute();
    add(column, entries.ids.size(1));
    return entries;
  }

 private:
  class Suspended {
   public:
    Suspended();
    ~Suspended();
    Suspended(const Suspended&) = delete;
    Suspended& operator=(const Suspended&) = delete;

   private:
    ExportedIds* const outer_;
  };

  void add(const ColumnImpl& column, int64_t most);
  Entries find(const ColumnImpl& column) const;

  std::vector<Column> columns_;
  std::vector<at::Tensor> given_;
};

/// The entries that `compute` gives, or, while a model is exported, an input of its graph.
template <class Compute>
Entries entries_or_exported(const ColumnImpl& column, const Compute& compute) {
  ExportedIds* const exported = ExportedIds::current();
  return exported == nullptr ? compute() : exported->entries(column, compute);
}

}  // namespace strata::feature_column::detail
