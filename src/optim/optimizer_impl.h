#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "optim/step/card_reducer.h"
#include "optim/step/dynamic_scale.h"
#include "optim/step/gradient_reducer.h"
#include "optim/step/gradients.h"
#include "optim/step/sharded_update.h"
#include "optim/step/shipped_update.h"
#include "optim/step/step.h"
#include "runtime/gradient_hooks.h"
#include "runtime/replica_group.h"
#include "strata/optim/optimizer.h"

namespace strata::optimizers {

/// A step on GPUs of which only the cards know whether its gradients were finite.
struct AwaitedStep {
  at::Tensor finite_there;  ///< `[]`, bool, on a card.
  at::Tensor finite;        ///< The same in pinned memory, once it is known.
  tensor::StreamEvent known;
  int64_t iterations = 0;  ///< Before it.
  double carried = 0;
};

/// What is behind an Optimizer: options, variables and state in optimizer.cc, a step in
/// optimizer_step.cc.
class Optimizer::Impl : public RunObserver,
                        public ShippedUpdate,
                        public std::enable_shared_from_this<Impl> {
 public:
  /// @throws Error kInvalidArgument: options outside their range.
  Impl(std::unique_ptr<tensor::UpdateRule> rule, OptimizerOptions options);

  void build(std::vector<Variable> variables);
  void minimize(const at::Tensor& loss, const MinimizeOptions& options);
  void apply_gradients(std::vector<at::Tensor> gradients, const MinimizeOptions& options);
  /// Where each process keeps its part of the slots: in all of them together.
  std::vector<std::pair<std::string, at::Tensor>> slots() const;
  void set_slot(size_t index, const at::Tensor& value);
  std::vector<std::string> slot_names() const { return slot_names(*rule_); }
  std::vector<std::string> slot_names(size_t variable) const;
  void exclude_from_weight_decay(const std::vector<std::string>& parts);
  void finalize_variable_values();
  void scale_dynamically(double initial_scale, int64_t growth_steps);
  double loss_scale();
  /// Learns, where only the cards know yet, whether the last step took place.
  void settle();

  void on_run_begin(int local) override {
    if (cards_) cards_->begin(local);
  }
  void on_run_end(int) override {}
  void on_resize() override;
  void reconnected() override { on_resize(); }

  Json shipped_options() const override;
  std::string why_not_shipped() const override;
  const std::vector<Variable>& shipped_variables() const override { return variables_; }
  double next_rate() const override { return options_.learning_rate(iterations_); }
  std::vector<StepNumbers> next_numbers(int64_t steps) const override;
  void advance(int64_t steps) override;
  int64_t finished() override {
    settle();
    return iterations_;
  }
  void set_finished(int64_t iterations) override {
    settle();
    iterations_ = iterations;
  }
  std::vector<std::pair<std::string, at::Tensor>> shipped_slots() const override { return slots(); }
  void set_shipped_slot(size_t index, const at::Tensor& value) override { set_slot(index, value); }
  void flush_shipped() override {
    for (Part& part : parts_) part.pass->flush(updates());
  }
  void fetch_shipped() override {
    for (Part& part : parts_) {
      part.pass->fetch();
      iterations_ = part.pass->updates().value_or(iterations_);  // other workers' too
    }
  }

  /// Brings the slots up to date, if steps run elsewhere.
  void refresh() const {
    if (group_) group_->refresh();
  }
  bool scales_dynamically() const { return dynamic_scale_.has_value(); }

  const std::unique_ptr<tensor::UpdateRule> rule_;
  const std::unique_ptr<tensor::UpdateRule> rule_of_left_out_;
  OptimizerOptions options_;
  std::vector<Variable> variables_;
  int64_t iterations_ = 0;

 private:
  /// One replica's part of a step, as the others see it.
  struct Contribution {
    const std::vector<at::Tensor>& gradients;  // by variable, undefined: none
    double weight = 0;
  };

  /// Variables of one dtype and rule, and their pass.
  struct Part {
    std::vector<size_t> variables;
    const tensor::UpdateRule* rule;
    double weight_decay;
    std::unique_ptr<UpdatePass> pass;
    ShardedUpdate* sharded = nullptr;  // the pass, where cards share the state out
    Step step;
    bool kept = false;  // the exchange knows what only this process reads
    bool owns = false;  // the pass knows what only this process updates
  };

  const ReplicaContext& replica(std::string_view call) const {
    return replica_of(rule_->name(), call, variables_);
  }
  bool clips_norm() const { return options_.clipnorm > 0 || options_.global_clipnorm > 0; }
  bool accumulates() const { return options_.gradient_accumulation_steps > 0; }
  std::vector<std::string> slot_names(const tensor::UpdateRule& rule) const;
  const Part& part_of(size_t variable) const { return parts_[part_of_variable_.at(variable)]; }
  size_t num_slots_of(const Part& part) const {
    return static_cast<size_t>(part.rule->num_slots() + extras().count());
  }
  bool is_left_out(const Variable& variable) const {
    return options_.leaves_out && options_.leaves_out(variable);
  }
  ExtraSlots extras() const { return {.average = options_.use_ema, .accumulator = accumulates()}; }
  int64_t updates_before(int64_t step) const {
    return accumulates() ? step / options_.gradient_accumulation_steps : step;
  }
  bool updates_at(int64_t step) const {  // else it only accumulates
    return !accumulates() || (step + 1) % options_.gradient_accumulation_steps == 0;
  }
  int64_t updates() const { return updates_before(iterations_); }  // that have been finished
  at::Tensor scaled(const at::Tensor& loss, double weight);
  void meet_for_loss_weight(double weight);
  at::Tensor loss_factor(const at::TensorOptions& options);
  void update_together(int id, const std::vector<at::Tensor>& gradients, double weight);
  std::vector<at::Tensor> gradients_of(const at::Tensor& loss, int local,
                                       const std::function<strata::detail::GradientShare()>& share);
  void make_exchange();
  void make_card_reducer();
  std::vector<CardReducer::Part> memory_for_sums(const std::vector<size_t>& order);
  OnGradient takes_ready(int local);
  bool shards() const { return reducer_ && reducer_->shards(); }
  bool shards_on_cards() const {
    return std::ranges::any_of(parts_, [](const Part& part) {
      return part.sharded != nullptr && part.sharded->shards() != nullptr;
    });
  }
  /// As its buckets say, in the first step and where a later one has others.
  void cut_shards(Part& part);
  /// One slot of all elements, where the cards have gradients; on the calling thread's streams.
  void gather_slot_on_cards(const Part& part, int slot) const;
  /// On the host, by entry; undefined: it is not sharded.
  std::vector<at::Tensor> gathered_slot(const Part& part, int slot) const;
  /// False: the cards have no parts of it.
  bool set_slot_on_cards(size_t variable, int slot, const at::Tensor& value);
  void gather_parameters_on_cards();
  /// As `slots`, every copy of each; of sharded ones only this process's elements are there.
  std::vector<std::pair<std::string, std::vector<at::Tensor>>> slot_copies() const;
  /// The slot of this name of each variable that has it, else undefined; of sharded ones a copy, in
  /// all processes together.
  std::vector<at::Tensor> whole_slots(std::string_view name) const;
  std::vector<std::vector<at::Tensor>> parameter_copies() const;
  void prepare_pass(Part& part, bool may_share);
  void prepare_step(const std::vector<const Contribution*>& own);
  void fill(EntryGradient& gradient, const std::vector<const Contribution*>& all, size_t variable);
  void fill(EntryGradient& gradient, const GradientSum& sum, size_t variable);
  void sum_on_cards(const std::vector<const Contribution*>& all,
                    const std::vector<bool>& is_elsewhere);
  bool fill_from_cards(EntryGradient& gradient, size_t variable);
  void reduce_by_ops(const std::vector<const Contribution*>& all);
  void reduce_at_home();
  void check_finite();
  bool check_finite_on_gpu();
  bool is_awaited() {
    const MutexLock lock(awaited_mutex_);
    return awaited_.has_value();
  }
  void take_accumulated();
  void scale_by_norms();
  bool scale_by_norms_on_gpu();
  void finish_step();
  /// Where processes share parameters and slots. By one thread.
  void meet_processes(std::string_view where);

  std::shared_ptr<ReplicaGroup> group_;
  std::unique_ptr<GradientReducer> reducer_;  // null where all replicas are in this process
  std::unique_ptr<CardReducer> cards_;        // null where gradients are not summed on GPUs
  std::unique_ptr<ShardGatherer> gatherer_;   // null where these do not share the state out
  std::vector<Part> parts_;
  std::vector<size_t> part_of_variable_;
  std::vector<std::string> undecayed_;
  std::optional<DynamicScale> dynamic_scale_;
  Mutex awaited_mutex_;
  std::optional<AwaitedStep> awaited_ STRATA_GUARDED_BY(awaited_mutex_);
  at::Tensor carried_;       // the rule's number; undefined if it has none
  double next_carried_ = 0;  // its value after this step

  bool shared_ = false;  // some parameters and slots, by the processes of the group

  // Of the present step; written in barriers.
  std::vector<const Contribution*> contributions_;
  bool updates_now_ = true;
  bool finite_ = true;
  double loss_weight_ = 1;
};

}  // namespace strata::optimizers
