#include "ps/study_inception_v3.h"

#include "strata/core/str_cat.h"

namespace strata::ps {
namespace {

struct Conv {
  int64_t filters;
  int64_t height;
  int64_t width;
};
using Branch = std::vector<Conv>;

class Network {
 public:
  void conv(const Conv& conv) { channels_ = conv_of(channels_, conv); }

  // Branches beside each other; what they give is concatenated. `pooled`: so do the channels that
  // a pooling passes on.
  void module(const std::vector<Branch>& branches, bool pooled = false) {
    int64_t out = pooled ? channels_ : 0;
    for (const Branch& branch : branches) out += chain(channels_, branch);
    channels_ = out;
  }

  // The last modules: two branches fork once more at their ends.
  void forked_module() {
    int64_t out = chain(channels_, {{320, 1, 1}});
    const int64_t second = chain(channels_, {{384, 1, 1}});
    out += chain(second, {{384, 1, 3}}) + chain(second, {{384, 3, 1}});
    const int64_t third = chain(channels_, {{448, 1, 1}, {384, 3, 3}});
    out += chain(third, {{384, 1, 3}}) + chain(third, {{384, 3, 1}});
    channels_ = out + chain(channels_, {{192, 1, 1}});
  }

  std::vector<VariableSpec> classify(int64_t classes) {
    add("affine/weights", {channels_, classes});
    add("affine/biases", {classes});
    return variables_;
  }

 private:
  int64_t chain(int64_t channels, const Branch& branch) {
    for (const Conv& conv : branch) channels = conv_of(channels, conv);
    return channels;
  }
  int64_t conv_of(int64_t channels, const Conv& conv) {
    add(str_cat("conv", convs_, "/kernel"), {conv.height, conv.width, channels, conv.filters});
    add(str_cat("conv", convs_++, "/batchnorm/beta"), {conv.filters});
    return conv.filters;
  }
  void add(std::string name, std::vector<int64_t> shape) {
    variables_.push_back({.name = std::move(name), .shape = std::move(shape)});
  }

  int64_t channels_ = 3;
  int convs_ = 0;
  std::vector<VariableSpec> variables_;
};

}  // namespace

std::vector<VariableSpec> study_inception_v3() {
  Network net;
  for (const Conv& conv :
       {Conv{32, 3, 3}, Conv{32, 3, 3}, Conv{64, 3, 3}, Conv{80, 1, 1}, Conv{192, 3, 3}}) {
    net.conv(conv);
  }
  for (const int64_t n : {32, 64, 64}) {
    net.module({{{64, 1, 1}},
                {{48, 1, 1}, {64, 5, 5}},
                {{64, 1, 1}, {96, 3, 3}, {96, 3, 3}},
                {{n, 1, 1}}});
  }
  net.module({{{384, 3, 3}}, {{64, 1, 1}, {96, 3, 3}, {96, 3, 3}}}, /*pooled=*/true);
  for (const int64_t n : {128, 160, 160, 192}) {
    net.module({{{192, 1, 1}},
                {{n, 1, 1}, {n, 1, 7}, {192, 7, 1}},
                {{n, 1, 1}, {n, 7, 1}, {n, 1, 7}, {n, 7, 1}, {192, 1, 7}},
                {{192, 1, 1}}});
  }
  net.module({{{192, 1, 1}, {320, 3, 3}}, {{192, 1, 1}, {192, 1, 7}, {192, 7, 1}, {192, 3, 3}}},
             /*pooled=*/true);
  net.forked_module();
  net.forked_module();
  return net.classify(1000);
}

}  // namespace strata::ps
