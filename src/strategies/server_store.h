#pragma once

#include <memory>

#include "ps/tables/client.h"
#include "runtime/parameter_store.h"
#include "strata/ps/placement.h"
#include "strata/ps/table.h"

namespace strata::detail {

/// Optimizers' values on the parameter servers of a cluster.
class ServerStore final : public ParameterStore {
 public:
  struct Options {
    ps::ConsistencyOptions consistency = {};
    ps::PushPrecision precision = ps::PushPrecision::kFull;
    ps::PlacementOptions placement = {};
    bool backup = false;
    bool chief = true;  ///< Brings the first values, and may write others.
    bool pull_ahead = false;
  };

  ServerStore(std::shared_ptr<ps::Client> client, Options options)
      : client_(std::move(client)), options_(std::move(options)) {}

  int num_servers() const override { return client_->num_servers(); }
  at::Tensor make_buffer(int64_t elements, c10::ScalarType dtype) override {
    return client_->make_buffer(elements, dtype);
  }
  std::unique_ptr<Table> make_table(const tensor::RuleOptions& rule,
                                    const std::vector<Entry>& entries,
                                    const at::Tensor& values) override;

 private:
  const std::shared_ptr<ps::Client> client_;
  const Options options_;
  int made_ = 0;
};

}  // namespace strata::detail
