#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ps/tables/buffer_pool.h"
#include "ps/tables/table_call.h"
#include "ps/tables/worker_clocks.h"
#include "strata/core/json.h"
#include "strata/ps/table.h"
#include "tensor/update_rule.h"

namespace strata::ps {

/// One server's part of a table: its values, its slots, and who waits for what. Calls come one at a
/// time, from a executor. A push takes place as a whole or not at all, and a pull sees whole
/// pushes.
class Shard {
 public:
  /// Takes back each call when the shard is done with it: then its answer is on its way.
  using Done = std::function<void(std::shared_ptr<TableCall>)>;

  /// @param server  This one, of `servers`.
  static std::unique_ptr<Shard> make(const TableSpec& spec, int server, int servers,
                                     BufferPool& pool, Done done);
  virtual ~Shard();
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  const TableSpec& spec() const { return spec_; }

  /// Bytes of values and slots that `server`, of `servers`, keeps of the table.
  /// @throws Error  kInvalidArgument: the table is wrong; as check_table.
  static uint64_t state_bytes(const TableSpec& spec, int server, int servers);

  /// What the request brings. Any thread.
  /// @throws Error  kInvalidArgument: the request is for tables of the other form, or does not
  ///   bring as much as the table needs; names both.
  PartSizes data_sizes_of(const Request& request) const;
  /// What its answer brings, once `data_sizes_of` has taken the request. Any thread.
  virtual PartSizes answer_sizes_of(const Request& request) const = 0;
  /// Of elements that the request brings and gets, where they are in the worker's memory.
  TableCall::Alignments alignments_of(const Request& request) const;
  /// Looks at data of a call, as they come if they travel: notes the first that are not finite.
  /// @param first  So many bytes of data stand before these. Any thread.
  void inspect(TableCall& call, size_t first, const std::byte* data, size_t bytes) const;
  /// How much memory the request touches, about. Any thread.
  virtual uint64_t bytes_of(const Request& request) const = 0;

  /// Does what the call asks for, now or once the others are as far. What is wrong with it is its
  /// answer. Never throws.
  void run(std::shared_ptr<TableCall> call);
  /// `worker` has ended, or is lost: no thread waits for it any more.
  void leave(const std::string& worker);
  /// This copy is the table from now on: who is not `there` has left.
  void keep_only(const std::set<std::string>& there);
  /// A copy is the table from now on: all calls end with kUnavailable and `why`, those that wait
  /// and those that come.
  void give_up(const std::string& why);

 protected:
  Shard(TableSpec spec, BufferPool& pool, Done done);

  /// What a step is made with, beside the gradients.
  struct Update {
    tensor::PreparedStep step;
    double scale = 1;
    double weight_decay = 0;
    double clip_value = 0;
  };

  /// As `data_sizes_of`, of a request that fits the table's form.
  virtual PartSizes do_data_sizes_of(const Request& request) const = 0;
  /// Of a push or a pull: its rows, its gradients.
  /// @throws Error  kInvalidArgument: names worker, element and what is wrong with it.
  virtual void check(const TableCall& call) const = 0;
  /// The sum of the pushes' gradients, in their order. Sends the new values to `answered`. Memory
  /// is found before the first value changes: what throws has changed nothing.
  virtual void apply(const std::vector<const TableCall*>& pushes, const Update& update,
                     const std::vector<TableCall*>& answered) = 0;
  /// Sends the values (or the slot) that the request asks for.
  virtual void send_values(TableCall& call) = 0;
  virtual void fill(const TableCall& call) = 0;
  /// Where the table's first values do not come from a worker.
  virtual bool fills_itself() const = 0;

  const TableSpec spec_;
  const std::unique_ptr<tensor::UpdateRule> rule_;
  BufferPool& pool_;

 private:
  using CallPtr = std::shared_ptr<TableCall>;
  /// A worker's push (or fill) that was taken last: it comes again where its answer was lost.
  struct Taken {
    uint64_t sequence = 0;
    bool dropped = false;
  };

  void dispatch(const CallPtr& call);
  void check_form(const Request& request) const;
  void check_push(const Request& request) const;
  void answer_failed(const CallPtr& call, const Status& status) noexcept;
  void inspect_in_place(TableCall& call) const;
  void join(const std::string& worker);
  void create(const CallPtr& call);
  void pull(const CallPtr& call);
  void push(const CallPtr& call);
  void push_in_step(const CallPtr& call);
  void push_again(const CallPtr& call, const Taken& last);
  void fill_once(const CallPtr& call);
  void end_step();
  void fail_step(const std::vector<CallPtr>& pushes, const Status& status);
  /// Sends the new values to those pushes that want them, and may have them now.
  void update(const std::vector<CallPtr>& pushes);
  void answer(const CallPtr& call, Reply reply = {});
  void answer_with_values(const CallPtr& call, Reply reply = {});
  void begin_step(const TableCall& call);
  void release_waiting();
  bool may_pull(const TableCall& call) const;
  size_t pushes_a_step() const;
  Json counters() const;

  const Done done_;
  bool filled_ = false;
  int64_t version_ = 0;      // updates; a program that restores a checkpoint sets it
  int64_t step_number_ = 0;  // kSynchronous: of the step that is being made
  double carried_ = 1;
  WorkerClocks clocks_;
  std::set<std::string> gone_;           // workers that were there
  std::map<std::string, CallPtr> step_;  // kSynchronous: this step's pushes by worker
  std::map<std::string, Taken> taken_;   // by worker
  std::vector<CallPtr> waiting_;         // pulls, and workers that wait for the values
  std::string given_up_;                 // why; empty: it is not

  // What the counters say.
  int64_t pushes_ = 0;
  int64_t dropped_ = 0;
  int64_t rejected_ = 0;
  int64_t repeated_ = 0;
  int64_t most_lead_ = 0;  // of a worker that began a step
};

}  // namespace strata::ps
