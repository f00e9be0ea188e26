#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "optim/step/card_shards.h"
#include "optim/step/step.h"
#include "runtime/replica_group.h"
#include "tensor/arena.h"

namespace strata::optimizers {

/// The update of variables on GPUs that share an optimizer's state out (`shard_optimizer_state`): each card
/// updates its parts of the buckets (`CardShards`), by the operators of DeviceUpdate, and keeps slots of no
/// other elements. What is in no bucket, such as variables with sparse gradients, every card updates whole.
///
/// Which variables have buckets is known in the first step. Until then slots are on the host, where
/// memory that is never written to takes none: a card never holds them whole.
class ShardedUpdate final : public UpdatePass {
 public:
  ShardedUpdate(const tensor::UpdateRule& rule, ReplicaGroup& group,
                const std::vector<Entry>& entries, const ExtraSlots& extras);

  /// Moves the slots from the host to the cards; by one replica.
  /// @throws Error  kFailedPrecondition: some are lost, with the process that had them.
  void cut(const CardShards& shards);
  /// How they are; null: on the host.
  const CardShards* shards() const { return shards_ ? &*shards_ : nullptr; }
  bool is_sharded(size_t entry) const { return !is_whole(entry); }
  /// Moves them back to the host, where this process has all of them or `set_slot` brings what it has not.
  void join();

  GradientMemory gradient_memory(const std::vector<size_t>& order) override;
  /// By local replica.
  std::vector<tensor::Arena> gradient_arenas() const;
  /// Where the arenas have an entry.
  int64_t place_of(size_t entry) const { return place_[entry]; }
  /// By local replica, laid out as those of gradients.
  std::vector<tensor::Arena> parameter_arenas() const;
  /// Copies each card's elements of a slot of the sharded entries to where it has their gradients.
  void put_into_gradients(int slot);
  void set_slot(size_t entry, int slot, const at::Tensor& value);

  void prepare_norms() override {}
  void reduce_for_norms(Step&, int) override {}
  std::vector<double> squared_norms(Step& step) override;
  at::Tensor squared_norms_on_gpu(Step& step) override;
  void accumulate(const Step& step, int replica) override;
  void update(const Step& step, int replica) override;
  void average(const Step& step, int replica) override;
  void reshape() override;
  /// Of a sharded entry: any tensor of its shape; `put_into_gradients` begins to gather it. Elements that
  /// are lost with the process that had them are NaN, until `set_slot` brings them.
  at::Tensor slot(size_t entry, int slot) const override;
  std::vector<at::Tensor> slot_copies(size_t entry, int slot) const override;

 private:
  /// Elements of an entry in a block.
  struct Piece {
    size_t entry;
    collective::Range of_entry;  // in the order of its memory
    int64_t begin;               // in the arenas
    int64_t slot_begin;          // in the slots
  };
  /// A card's part of a bucket.
  struct Block {
    collective::Range elements;  // of the arenas
    int64_t slot_begin;
    std::vector<Piece> pieces;
  };
  /// What one card has.
  struct Copy {
    tensor::Arena parameters;
    tensor::Arena gradients;
    std::vector<Block> blocks;
    std::vector<at::Tensor> slots;                  // by slot: of all blocks, one behind the other
    std::vector<std::vector<at::Tensor>> of_entry;  // by entry that is whole: its slots
  };
  struct Values {  // of a run of elements
    at::Tensor parameter, gradient;
    std::vector<at::Tensor> slots;
  };

  bool is_whole(size_t entry) const { return is_whole_[entry]; }
  void set_order(const std::vector<size_t>& order);
  std::vector<int> local_replicas() const;
  Copy make_copy(int local) const;
  std::vector<Block> blocks_of(const CardShards& shards, int replica) const;
  void move_parameters();
  std::vector<tensor::Arena> make_host_slots() const;
  void check_known(size_t entry, int slot) const;
  Values values_of(const Copy& copy, const collective::Range& elements, int64_t slot_begin) const;
  at::Tensor parameter(size_t entry, int replica) const;
  std::vector<at::Tensor> first_parameters() const;
  std::vector<at::Tensor> of_rule(const std::vector<at::Tensor>& slots) const;
  tensor::UpdateModifiers modifiers(const Step& step, size_t entry) const;
  /// Whether one call for a block does what a call for each piece would.
  bool treats_all_alike(const Step& step) const;
  void apply_factors(const Step& step, Copy& copy) const;
  void update_always(const Step& step, int replica);
  std::vector<at::Tensor> state_of(int replica) const;
  Copy& copy_of(int replica) { return copies_[static_cast<size_t>(replica)]; }
  const Copy& copy_of(int replica) const { return copies_[static_cast<size_t>(replica)]; }
  int num_slots() const { return rule_.num_slots() + extras_.count(); }

  const tensor::UpdateRule& rule_;
  ReplicaGroup& group_;
  const ExtraSlots extras_;
  const std::vector<Entry> entries_;
  std::vector<size_t> order_;   // the entries, as the arenas have them
  std::vector<int64_t> place_;  // by entry: in them
  std::vector<int> replicas_;   // of this process
  std::vector<Copy> copies_;    // by local replica
  std::optional<CardShards> shards_;
  std::vector<char> is_whole_;               // by entry
  std::vector<tensor::Arena> host_;          // by slot, until `cut`
  std::vector<std::vector<char>> is_known_;  // of them, by slot and entry
};

/// Null: the variables, or the rule, are none to be sharded, or nothing asks for it.
std::unique_ptr<ShardedUpdate> make_sharded_update(const tensor::UpdateRule& rule,
                                                   ReplicaGroup& group,
                                                   const std::vector<Entry>& entries,
                                                   const ExtraSlots& extras);

}  // namespace strata::optimizers
