#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "strata/core/export.h"
#include "strata/keras/layer_impl.h"
#include "strata/strategies/strategy.h"

namespace strata::keras {

/// What stands behind a Model. Derive from it for models of your own: layers handed to `track` in
/// the constructor, `call` in terms of them, and `train_step` where training is not the usual.
class STRATA_API ModelImpl : public LayerImpl {
 public:
  explicit ModelImpl(LayerOptions options = {});
  ~ModelImpl() override;

  std::string_view class_name() const override { return "Model"; }
  std::string_view module() const override { return "keras"; }

  /// In Keras's order: from inputs to outputs.
  virtual std::vector<Layer> layers() const;

  /// The strategy in whose scope the model was made; its weights live there.
  Strategy& strategy() const { return *strategy_; }

 protected:
  void describe(ConfigWriter& config) const override;

 private:
  Strategy* strategy_;
};

/// A model: a layer made of layers that can be trained, saved and shown. A handle; copies are the
/// same model.
///
///     auto x = keras::Input({784});
///     auto y = layers::Dense(10)(layers::Dense(64, "relu")(x));
///     keras::Model model(x, y);
///
/// Source: keras.Model.
class STRATA_API Model : public LayerOf<ModelImpl> {
 public:
  using LayerOf<ModelImpl>::LayerOf;

  /// The layers between `inputs` and `outputs`; weights are those of the layers.
  /// @throws Error kInvalidArgument: outputs that do not depend on the inputs alone.
  Model(const std::vector<SymbolicTensor>& inputs, const std::vector<SymbolicTensor>& outputs,
        const std::string& name = {});
  Model(const SymbolicTensor& input, const SymbolicTensor& output, const std::string& name = {});

  std::vector<Layer> layers() const { return (*this)->layers(); }
  /// @throws Error kNotFound: lists the names there are.
  Layer get_layer(const std::string& name) const;
  /// @throws Error kOutOfRange.
  Layer get_layer(size_t index) const;

  /// Symbolic inputs and outputs; of a Sequential once it is built, of a model of yours none.
  std::vector<SymbolicTensor> inputs() const;
  std::vector<SymbolicTensor> outputs() const;
};

/// Makes a model of a class of yours.
template <typename Impl, typename... Arguments>
requires std::is_base_of_v<ModelImpl, Impl> Model make_model(Arguments&&... arguments) {
  return Model(std::make_shared<Impl>(std::forward<Arguments>(arguments)...));
}

}  // namespace strata::keras
