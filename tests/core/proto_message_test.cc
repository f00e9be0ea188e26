#include "core/proto_message.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace strata::detail {
namespace {

enum class Colour : uint32_t { kNone = 0, kRed = 1 };

struct Point {
  int64_t x = 0;
  std::optional<double> weight = {};

  friend bool operator==(const Point&, const Point&) = default;
};

void visit_fields(auto& field, MessageOf<Point> auto& point) {
  field.checked(1, "x", point.x, [&] { return point.x < 0 ? "a negative x" : nullptr; });
  field(2, "weight", point.weight);
}

struct Shape {
  Colour colour = Colour::kNone;
  bool closed = false;
  uint32_t small = 0;
  double scale = 1;
  std::string name = {};
  std::string_view data = {};
  Point centre = {};
  std::vector<Point> points = {};
  std::vector<uint64_t> numbers = {};
  std::vector<std::string> lines = {};
  ErrorCode code = ErrorCode::kOk;

  friend bool operator==(const Shape&, const Shape&) = default;
};

void visit_fields(auto& field, MessageOf<Shape> auto& shape) {
  field(1, "colour", shape.colour);
  field(2, "closed", shape.closed);
  field(3, "small", shape.small);
  field.always(4, "scale", shape.scale);
  field(5, "name", shape.name);
  field.bytes(6, "data", shape.data);
  field(7, "centre", shape.centre);
  field(8, "points", shape.points);
  field(9, "numbers", shape.numbers);
  field(10, "lines", shape.lines);
  field(11, "code", shape.code);
}

constexpr WireText kText = {"[test] shape", "a shape"};

template <typename Message>
std::string encode(const Message& message) {
  std::string out;
  write_message(message, out);
  return out;
}

Shape decode(std::string_view bytes) {
  Shape shape;
  WireReader reader(bytes, bytes, kText);
  read_message(shape, reader);
  return shape;
}

TEST(ProtoMessageTest, EveryKindOfMemberComesBack) {
  const Shape shape = {.colour = Colour::kRed,
                       .closed = true,
                       .small = ~uint32_t{0},
                       .scale = -0.5,
                       .name = "a",
                       .data = std::string_view("b\0c", 3),
                       .centre = {.x = 7, .weight = 0.0},
                       .points = {{}, {.x = 300}},
                       .numbers = {0, ~uint64_t{0}},
                       .lines = {"", "d"},
                       .code = ErrorCode::kAborted};
  const std::string bytes = encode(shape);
  EXPECT_EQ(decode(bytes), shape);
}

TEST(ProtoMessageTest, ZerosAreNotWritten) {
  EXPECT_EQ(encode(Point{}), "");
  // A number that is `always` written, and a message, which may be empty.
  EXPECT_EQ(encode(Shape{.scale = 0}), std::string("\x21\0\0\0\0\0\0\0\0\x3A\0", 11));
  EXPECT_EQ(encode(Point{.weight = 0.0}), std::string("\x11\0\0\0\0\0\0\0\0", 9));
}

TEST(ProtoMessageTest, AbsentFieldsKeepTheirValues) { EXPECT_EQ(decode(""), Shape{}); }

TEST(ProtoMessageTest, TheLastOfTwoCounts) {
  EXPECT_EQ(decode("\x18\x01\x18\x02").small, 2U);
  EXPECT_EQ(decode("\x2A\x01x\x2A\x01y").name, "y");
}

TEST(ProtoMessageTest, FieldsOfALaterVersionAreSkipped) {
  EXPECT_EQ(decode("\xA2\x06\x03xyz\x18\x05\xA8\x06\x01").small, 5U);  // 100: a text, 101: a number
  EXPECT_EQ(decode("\x3A\x04\x18\x01\x08\x02").centre.x, 2);           // 3 of a Point
}

TEST(ProtoMessageTest, ErrorsSayWhere) {
  const std::pair<std::string, const char*> cases[] = {
      {"\x1A\x01x", "offset 1: got a field of another kind"},
      {"\x18", "offset 1: got the end inside of a number"},
      {"\x21\x01", "offset 1: got the end"},
      {"\x18\x01\x3A\x02\x0A\x01", "offset 5: got a field of another kind"},
      {"\x18\x01\x3A\x03\x08\x01", "offset 4: got a length beyond the end"},
      {"\x42\x0B\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", "offset 13: got a negative x"},
  };
  for (const auto& [bytes, what] : cases) {
    expect_error([&, bytes = bytes] { (void)decode(bytes); }, ErrorCode::kDataLoss,
                 str_cat("[test] shape: ", what, "; expected the bytes of a shape"));
  }
}

TEST(ProtoMessageTest, AnUnknownErrorCodeIsUnknown) {
  EXPECT_EQ(decode("\x58\x10").code, ErrorCode::kUnauthenticated);
  EXPECT_EQ(decode("\x58\x11").code, ErrorCode::kUnknown);
  EXPECT_EQ(decode("\x58\x80\x80\x80\x80\x10").code, ErrorCode::kUnknown);  // 2^32
}

}  // namespace
}  // namespace strata::detail
