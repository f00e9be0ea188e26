#include "strata/keras/config.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace strata::keras {
namespace {

struct Options {
  int64_t units = 1;
  Sizes<2> size = 3;
  std::optional<double> rate = {};
};

template <typename Config>
void visit(Config& config, Options& options) {
  config("units", options.units);
  config("size", options.size);
  config("rate", options.rate);
  config.only("renorm", false);
}

Options read(const std::string& text) {
  const Json json = Json::parse(text);
  ConfigReader reader(json, "Dense layer 'dense_1'");
  Options options;
  visit(reader, options);
  reader.finish();
  return options;
}

TEST(ConfigTest, OneFunctionWritesAndReads) {
  Options options{.units = 7, .size = {2, 5}, .rate = 0.5};
  ConfigWriter writer;
  visit(writer, options);
  const std::string text = writer.take().dump();
  EXPECT_EQ(text, R"({"units":7,"size":[2,5],"rate":0.5})");
  const Options again = read(text);
  EXPECT_EQ(again.units, 7);
  EXPECT_EQ(again.size, Sizes<2>(2, 5));
  EXPECT_EQ(again.rate, 0.5);
}

TEST(ConfigTest, WhatIsAbsentKeepsItsDefaultAndOneSizeStandsForAll) {
  const Options options = read(R"({"size": 4, "renorm": false, "lora_rank": null})");
  EXPECT_EQ(options.units, 1);
  EXPECT_EQ(options.size, Sizes<2>(4, 4));
  EXPECT_FALSE(options.rate);
}

TEST(ConfigTest, ErrorsNameObjectOptionAndValue) {
  expect_error_containing([] { read(R"({"units": "many"})"); }, ErrorCode::kDataLoss,
                          "Dense layer 'dense_1': option 'units' = \"many\"");
  expect_error_containing([] { read(R"({"renorm": true})"); }, ErrorCode::kUnimplemented,
                          "option 'renorm' = true; strata has only false");
  expect_error_containing([] { read(R"({"colour": 1})"); }, ErrorCode::kUnimplemented,
                          "option 'colour' = 1; it is unknown to strata");
  expect_error_containing([] { read(R"({"size": [1, 2, 3]})"); }, ErrorCode::kDataLoss,
                          "got 3 sizes; expected 2");
}

TEST(ShapeTest, PrintsAsKeras) {
  EXPECT_EQ(to_string(Shape{kNone, 28, 28}), "(None, 28, 28)");
  EXPECT_EQ(to_string(Shape{kNone}), "(None,)");
  EXPECT_EQ(to_string(Shape{}), "()");
}

}  // namespace
}  // namespace strata::keras
