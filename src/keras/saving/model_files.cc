#include "strata/keras/model.h"

#include "strata/checkpoint/tracked.h"
#include "strata/keras/printing.h"
#include "strata/keras/saving.h"

namespace strata::keras {

void Model::save(const std::string& path) const { save_model(*this, path); }
void Model::save_weights(const std::string& path) const { keras::save_weights(*this, path); }
void Model::load_weights(const std::string& path, const ReadLimits& limits) const {
  keras::load_weights(*this, path, limits);
}
void Model::summary(std::ostream& out) const { print_summary(*this, out); }
std::string Model::to_json() const { return model_to_config(*this).dump(); }

namespace {

/// Layers may get their weights later.
class TrackedModel final : public Trackable {
 public:
  explicit TrackedModel(Model model) : model_(std::move(model)) {}
  ObjectState state() override {
    ObjectState state;
    for (const Weight& weight : model_->weights()) {
      state.tensors.push_back(
          strata::detail::state_of(weight.variable, std::to_string(state.tensors.size())));
    }
    return state;
  }

 private:
  const Model model_;
};

}  // namespace

std::shared_ptr<Trackable> Model::tracked() const { return std::make_shared<TrackedModel>(*this); }

}  // namespace strata::keras
