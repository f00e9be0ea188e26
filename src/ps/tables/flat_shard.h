#pragma once

#include <memory>
#include <vector>

#include "ps/tables/serial_executor.h"
#include "ps/tables/shard.h"
#include "tensor/arena.h"

namespace strata::ps {

/// A part of a flat table: this server's elements one after the other, and as many of each slot.
/// T: float or double.
template <typename T>
class FlatShard final : public Shard {
 public:
  FlatShard(const TableSpec& spec, int server, BufferPool& pool, Done done);

  PartSizes answer_sizes_of(const Request& request) const override;
  uint64_t bytes_of(const Request&) const override {
    return static_cast<uint64_t>(elements_) * sizeof(T);
  }

 private:
  /// Neighbours in the table and here.
  struct Run {
    int64_t table_begin;
    int64_t begin;
    int64_t size;
  };
  /// Elements that weight decay acts on, or not.
  struct Segment {
    int64_t begin;
    int64_t end;
    bool decays;
  };

  PartSizes do_data_sizes_of(const Request& request) const override;
  void check(const TableCall& push) const override;
  void apply(const std::vector<const TableCall*>& pushes, const Update& update,
             const std::vector<TableCall*>& answered) override;
  void send_values(TableCall& call) override;
  void fill(const TableCall& call) override;
  bool fills_itself() const override { return elements_ == 0; }

  class Gradients;

  void make_segments();
  PartSizes sizes_of_runs(size_t element) const;
  template <typename Work>
  void for_each_message_of(Work work) const;
  T* values(int64_t slot) const { return data_[static_cast<size_t>(slot)]; }
  bool streams_to(const TableCall& call) const;
  T* room_of(const TableCall& call, size_t run, int64_t element) const;
  void apply_by_two(Gradients& gradients, Gradients& also, const Update& update,
                    const std::vector<TableCall*>& answered);
  /// @param copy  nullptr, or where the updated values go, too.
  void apply_strip(const Gradients& gradients, const Update& update,
                   typename std::vector<Segment>::const_iterator& segment, int64_t begin,
                   int64_t end, T* copy);
  void put_values(TableCall& call, size_t run, int64_t slot, int64_t begin, int64_t end) const;
  void send_values_of(TableCall& call, size_t run, int64_t begin, int64_t end) const;

  std::vector<Run> runs_;
  std::vector<Segment> segments_;
  int64_t elements_ = 0;
  std::vector<tensor::Arena> arenas_;       // the values, and each slot
  std::vector<T*> data_;                    // of the arenas
  std::unique_ptr<SerialExecutor> helper_;  // of `apply_by_two`, once it has been called
};

}  // namespace strata::ps
