#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <type_traits>

#include "strata/keras/layer_impl.h"

/// How a layer is written: a struct with what its constructor takes (what is apart
/// first, then `options`), one `visit` that names all of it, an Impl that is made from it.
namespace strata::keras {

/// A class by name, and how one is made from a file's config.
struct LayerClass {
  std::string name;
  Layer (*make)(const Json& config);
};

/// For a `visit` that argument structs of one file share: `Arguments` is one of them ...
template <typename Arguments, typename... Structs>
concept OneOf = (std::same_as<std::remove_const_t<Arguments>, Structs> || ...);
/// ... or one of a template over the number of spatial axes.
template <typename Arguments, template <size_t> typename Struct>
concept OfAnyRank = requires(const Arguments& arguments) {
  []<size_t N>(const Struct<N>&) {}(arguments);
};

/// What all layers have, from the options of one.
template <typename Options>
LayerOptions base_options(const Options& options) {
  return {.name = options.name, .dtype = options.dtype};
}

template <typename Impl, typename Arguments>
Layer make_from_config(const Json& config, Arguments arguments, const char* class_name) {
  const Json* name = config.find("name");
  ConfigReader reader(config,
                      str_cat(class_name, " layer '",
                              name != nullptr && name->is_string() ? name->as_string() : "", "'"));
  bool trainable = true;
  reader("name", arguments.options.name);
  reader("dtype", arguments.options.dtype);
  reader("trainable", trainable);
  // What only Keras's own run needs, or what the graph says better.
  for (const char* key : {"batch_input_shape", "batch_shape", "input_dtype"}) reader.ignore(key);
  visit(reader, arguments);
  reader.finish();
  auto impl = std::make_shared<Impl>(arguments);
  if (!trainable) impl->set_trainable(false);
  return Layer(std::move(impl));
}

/// The entry of a class whose arguments are `Arguments`, which must be default constructible.
#define STRATA_LAYER_CLASS(class_name, Impl, Arguments)                                \
  ::strata::keras::LayerClass {                                                        \
    class_name, [](const ::strata::Json& config) {                                     \
      return ::strata::keras::make_from_config<Impl>(config, Arguments{}, class_name); \
    }                                                                                  \
  }

// The families, a file each.
std::vector<LayerClass> activation_layers();
std::vector<LayerClass> application_layers();
std::vector<LayerClass> attention_layers();
std::vector<LayerClass> augmentation_policy_layers();
std::vector<LayerClass> batch_mixing_layers();
std::vector<LayerClass> batch_normalization_layers();
std::vector<LayerClass> category_layers();
std::vector<LayerClass> color_augmentation_layers();
std::vector<LayerClass> concatenate_layers();
std::vector<LayerClass> conv_lstm_layers();
std::vector<LayerClass> conv_transpose_layers();
std::vector<LayerClass> convolutional_layers();
std::vector<LayerClass> core_layers();
std::vector<LayerClass> depthwise_conv_layers();
std::vector<LayerClass> distortion_layers();
std::vector<LayerClass> dot_layers();
std::vector<LayerClass> einsum_dense_layers();
std::vector<LayerClass> embedding_layers();
std::vector<LayerClass> group_query_attention_layers();
std::vector<LayerClass> hashing_layers();
std::vector<LayerClass> histogram_equalization_layers();
std::vector<LayerClass> image_preprocessing_layers();
std::vector<LayerClass> lookup_layers();
std::vector<LayerClass> merging_layers();
std::vector<LayerClass> multi_head_attention_layers();
std::vector<LayerClass> normalization_layers();
std::vector<LayerClass> padding_layers();
std::vector<LayerClass> pooling_layers();
std::vector<LayerClass> preprocessing_layers();
std::vector<LayerClass> random_image_layers();
std::vector<LayerClass> recurrent_cells();
std::vector<LayerClass> recurrent_layers();
std::vector<LayerClass> recurrent_wrappers();
std::vector<LayerClass> regularization_layers();
std::vector<LayerClass> reshaping_layers();
std::vector<LayerClass> spectral_normalization_layers();
std::vector<LayerClass> spectrogram_layers();
std::vector<LayerClass> stacked_cells();
std::vector<LayerClass> text_layers();
std::vector<LayerClass> up_sampling_layers();

}  // namespace strata::keras
