#pragma once

#include <vector>

#include "ps/tables/shard.h"
#include "tensor/arena.h"

namespace strata::ps {

/// A part of a table of rows: every n-th row, and its slots. T: float or double.
template <typename T>
class RowShard final : public Shard {
 public:
  RowShard(const TableSpec& spec, int server, int servers, BufferPool& pool, Done done);

  PartSizes answer_sizes_of(const Request& request) const override;
  uint64_t bytes_of(const Request& request) const override {
    const bool all = request.kind == RequestKind::kRead || request.kind == RequestKind::kFill;
    const uint64_t rows = all ? static_cast<uint64_t>(local_rows_) : request.rows;
    return rows * static_cast<uint64_t>(spec_.width) * sizeof(T);
  }

 private:
  PartSizes do_data_sizes_of(const Request& request) const override;
  void check(const TableCall& push) const override;
  void check_rows(const TableCall& call) const;
  void apply(const std::vector<const TableCall*>& pushes, const Update& update,
             const std::vector<TableCall*>& answered) override;
  void send_values(TableCall& call) override;
  void fill(const TableCall& call) override;
  bool fills_itself() const override { return true; }

  int64_t local(int64_t row) const { return servers_ == 1 ? row : row / servers_; }
  void initialize();
  void apply_row(int64_t row, const T* gradient, const Update& update);

  const int server_;
  const int servers_;
  int64_t local_rows_;
  tensor::Arena parameters_;
  std::vector<tensor::Arena> slots_;
  std::vector<T*> data_;  // the values, then the slots
};

}  // namespace strata::ps
