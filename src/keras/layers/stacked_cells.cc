#include <algorithm>

#include "keras/layers/gated_cell.h"
#include "keras/layers/layer_class.h"
#include "keras_files/model_layout.h"
#include "strata/keras/layer_registry.h"
#include "strata/keras/layers/recurrent_cells.h"

namespace strata::layers {
namespace {

using keras::Call;
using keras::Shape;
using keras::Tensors;

struct StackedRNNCellsArguments {
  std::vector<keras::Layer> cells = {};
  StackedRNNCellsOptions options = {};
};
void visit(keras::ConfigReader& config, StackedRNNCellsArguments& stack) {
  Json cells = Json::array();
  config("cells", cells);
  for (const Json& cell : cells.as_array()) stack.cells.push_back(keras::layer_from_config(cell));
}

class StackedStepper final : public RNNCellImpl::Run {
 public:
  StackedStepper(std::vector<std::unique_ptr<RNNCellImpl::Run>> runs, std::vector<size_t> counts)
      : runs_(std::move(runs)), counts_(std::move(counts)) {}

  at::Tensor project(const at::Tensor& x) override { return runs_[0]->project(x); }

  at::Tensor advance(const at::Tensor& projected, Tensors& states) override {
    at::Tensor y = projected;
    size_t first = 0;
    for (size_t i = 0; i < runs_.size(); ++i) {
      if (i > 0) y = runs_[i]->project(y);
      const auto begin = states.begin() + static_cast<std::ptrdiff_t>(first);
      Tensors own(begin, begin + static_cast<std::ptrdiff_t>(counts_[i]));
      y = runs_[i]->advance(y, own);
      std::copy(own.begin(), own.end(), begin);
      first += counts_[i];
    }
    return y;
  }

 private:
  std::vector<std::unique_ptr<RNNCellImpl::Run>> runs_;
  std::vector<size_t> counts_;
};

class StackedRNNCellsImpl final : public RNNCellImpl {
 public:
  explicit StackedRNNCellsImpl(const StackedRNNCellsArguments& arguments)
      : RNNCellImpl(keras::base_options(arguments.options)) {
    STRATA_CHECK(!arguments.cells.empty(), kInvalidArgument,
                 "[layers] StackedRNNCells: got no cells; expected at least one");
    keras_files::GroupNames names;
    for (const keras::Layer& layer : arguments.cells) {
      cells_.push_back(&as_cell(layer, "StackedRNNCells"));
      track("cells/" + names.next(layer->class_name()), layer);
    }
  }

  std::string_view class_name() const override { return "StackedRNNCells"; }
  std::vector<int64_t> state_sizes() const override {
    std::vector<int64_t> sizes;
    for (const RNNCellImpl* cell : cells_) {
      for (int64_t size : cell->state_sizes()) sizes.push_back(size);
    }
    return sizes;
  }
  int64_t output_size() const override { return cells_.back()->output_size(); }

  std::unique_ptr<Run> start(const Call& call) override {
    std::vector<std::unique_ptr<Run>> runs;
    std::vector<size_t> counts;
    for (RNNCellImpl* cell : cells_) {
      runs.push_back(cell->start(call));
      counts.push_back(cell->state_sizes().size());
    }
    return std::make_unique<StackedStepper>(std::move(runs), std::move(counts));
  }

 private:
  void describe(keras::ConfigWriter& config) const override {
    Json cells = Json::array();
    for (const auto& [name, layer] : sublayers()) cells.push_back(keras::to_config(layer));
    config("cells", cells);
  }

  void build(const std::vector<Shape>& inputs) override {
    Shape shape = inputs.at(0);
    for (RNNCellImpl* cell : cells_) {
      std::vector<Shape> shapes{shape};
      for (int64_t size : cell->state_sizes()) shapes.push_back({shape[0], size});
      cell->ensure_built(shapes);
      shape = {shape[0], cell->output_size()};
    }
  }

  Tensors call(const Tensors& inputs, const Call& call) override {
    Tensors states(inputs.begin() + 1, inputs.end());
    const auto run = start(call);
    Tensors outputs{run->advance(run->project(inputs.at(0)), states)};
    outputs.insert(outputs.end(), states.begin(), states.end());
    return outputs;
  }

  std::vector<RNNCellImpl*> cells_;
};

}  // namespace

StackedRNNCells::StackedRNNCells(const std::vector<keras::Layer>& cells,
                                 const StackedRNNCellsOptions& options)
    : Layer(std::make_shared<StackedRNNCellsImpl>(StackedRNNCellsArguments{cells, options})) {}

}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> stacked_cells() {
  using namespace layers;  // NOLINT
  return {STRATA_LAYER_CLASS("StackedRNNCells", StackedRNNCellsImpl, StackedRNNCellsArguments)};
}

}  // namespace strata::keras
