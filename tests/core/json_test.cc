#include "strata/core/json.h"

#include <gtest/gtest.h>

#include <limits>

#include "support/expect_error.h"

namespace strata {
namespace {

TEST(JsonTest, ReadsEveryKindOfValue) {
  const Json json = Json::parse(
      " {\"a\": [1, -2.5e3, true, false, null], \"b\":{}, \"c\" : "
      "\"x\\\"\\\\\\n\\u00e4\\ud83d\\ude00\"}\n");
  EXPECT_EQ(json.at("a").as_array()[0].as_int(), 1);
  EXPECT_EQ(json.at("a").as_array()[1].as_double(), -2500);
  EXPECT_TRUE(json.at("a").as_array()[2].as_bool());
  EXPECT_TRUE(json.at("a").as_array()[4].is_null());
  EXPECT_TRUE(json.at("b").as_object().empty());
  EXPECT_EQ(json.at("c").as_string(), "x\"\\\n\xc3\xa4\xf0\x9f\x98\x80");
  EXPECT_EQ(json.find("d"), nullptr);
}

TEST(JsonTest, WritesWhatItReads) {
  Json json = Json::object();
  json.set("text", "\x01\t\"\xc3\xa4")
      .set("list", Json::array({int64_t{1}, 0.1, true, Json()}))
      .set("empty", Json::object())
      .set("nested", Json::array({Json::array({2})}));
  EXPECT_EQ(json.dump(),
            "{\"text\":\"\\u0001\\t\\\"\xc3\xa4\",\"list\":[1,0.1,true,null],\"empty\":{},"
            "\"nested\":[[2]]}");
  EXPECT_EQ(Json::parse(json.dump()), json);
  EXPECT_EQ(Json::parse(json.dump(2)), json);
  EXPECT_EQ(Json::array({1, 2}).dump(2), "[1, 2]");
  json.set("text", 5);
  EXPECT_EQ(json.at("text").as_int(), 5);
}

TEST(JsonTest, NumbersKeepEveryBit) {
  for (const double value : {0.1, -0.0, 1e300, 5e-324, 3.0, 1e15}) {
    const Json back = Json::parse(Json(value).dump());
    EXPECT_FALSE(back.is_int());
    EXPECT_EQ(back.as_double(), value);
  }
  for (const int64_t value :
       {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(), int64_t{0}}) {
    EXPECT_EQ(Json::parse(Json(value).dump()).as_int(), value);
  }
  EXPECT_EQ(Json::parse("9223372036854775808").as_double(), 9223372036854775808.0);
}

TEST(JsonTest, NotANumberIsAnError) {
  expect_error([] { (void)Json(std::numeric_limits<double>::quiet_NaN()).dump(); },
               "[core] JSON: got nan; expected a finite number");
}

TEST(JsonTest, SaysWhereATextIsWrong) {
  const auto wrong = [](const std::string& text, const std::string& message) {
    expect_error([&] { (void)Json::parse(text); }, ErrorCode::kDataLoss, "[core] JSON: " + message);
  };
  wrong("", "got the end at byte 0; expected a value");
  wrong("{\"a\":1,}", "got '}' at byte 7; expected a member's name");
  wrong("{\"a\" 1}", "got '1}' at byte 5; expected ':'");
  wrong("[1 2]", "got '2]' at byte 3; expected ',' or ']'");
  wrong("{\"a\":1;", "got ';' at byte 6; expected ',' or '}'");
  wrong("[01]", "got ']' at byte 3; expected no digits behind a leading zero");
  wrong("-", "got the end at byte 1; expected a value");
  wrong("nul", "got 'nul' at byte 0; expected a value");
  wrong("\"a", "got the end at byte 2; expected '\"'");
  wrong("\"\n\"", "got '\n\"' at byte 1; expected no control character in a string");
  wrong("\"\\x\"", "got 'x\"' at byte 2; expected an escape of JSON");
  wrong("\"\\u12g4\"", "got '12g4\"' at byte 3; expected four hexadecimal digits");
  wrong("\"\\ud800\"", "got '\"' at byte 7; expected the second half of a surrogate pair");
  wrong("\"\\udc00\"", "got '\"' at byte 7; expected the first half of a surrogate pair");
  wrong("1 1", "got '1' at byte 2; expected the end");
  wrong("{\"a\":1,\"a\":2}",
        "got the end at byte 13; expected the name 'a' once in the object before");
  wrong(std::string(300, '['),
        "got '" + std::string(12, '[') + "' at byte 201; expected fewer nested arrays and objects");
}

TEST(JsonTest, NumbersBeyondADoubleAreRefused) {
  expect_error([] { (void)Json::parse("[1e999]"); }, ErrorCode::kDataLoss,
               "[core] JSON: got '1e999]' at byte 1; expected a number that a double can hold");
  EXPECT_EQ(Json::parse("1e-999").as_double(), 0);
  EXPECT_EQ(Json::parse("-1e308").as_double(), -1e308);
}

TEST(JsonTest, MoreValuesThanTheLimitAreRefused) {
  EXPECT_EQ(Json::parse("[1,[2]]", {.parts = 4}).as_array().size(), 2U);
  expect_error([] { (void)Json::parse("[1,[2]]", {.parts = 3}); }, ErrorCode::kResourceExhausted,
               "[core] JSON: got more values at byte 4 than ReadLimits::parts allows; raise it to "
               "read more");
}

TEST(JsonTest, OtherTypesAreErrors) {
  const Json json = Json::parse("{\"a\": [1]}");
  const auto wrong = [](const std::function<void()>& call, const std::string& message) {
    expect_error(call, ErrorCode::kDataLoss, "[core] JSON: " + message);
  };
  wrong([&] { (void)json.as_array(); }, "got an object; expected an array");
  wrong([&] { (void)json.at("a").as_object(); }, "got an array; expected an object");
  wrong([&] { (void)json.at("a").as_array()[0].as_string(); }, "got an integer; expected a string");
  wrong([&] { (void)Json("x").as_int(); }, "got a string; expected an integer");
  wrong([&] { (void)Json(0.5).as_int(); }, "got a number; expected an integer");
  wrong([&] { (void)Json().as_double(); }, "got null; expected a number");
  wrong([&] { (void)Json(true).as_double(); }, "got a boolean; expected a number");
  wrong([&] { (void)Json(1).as_bool(); }, "got an integer; expected a boolean");
  wrong([&] { (void)json.at("b"); }, "got an object without 'b'; expected that member");
}

}  // namespace
}  // namespace strata
