#include "collective/call_fingerprint.h"

#include <charconv>

#include "strata/core/str_cat.h"

namespace strata::collective {
namespace {

// From the top: collective 3 bits, operation 2, dtype 6, plan 13, elements 40.
constexpr int kElementBits = 40;
constexpr int kPlanBits = 13;
constexpr int kDtypeBits = 6;
constexpr int kOpBits = 2;

constexpr uint64_t mask(int bits) { return (uint64_t{1} << bits) - 1; }

/// FNV-1a, begun or continued.
uint64_t hash(std::string_view text, uint64_t value = 0xcbf29ce484222325u) {
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return value;
}

}  // namespace

uint64_t CallFingerprint::pack() const {
  uint64_t bits = static_cast<uint64_t>(collective);
  bits = bits << kOpBits | static_cast<uint64_t>(op);
  bits = bits << kDtypeBits | (static_cast<uint64_t>(dtype) & mask(kDtypeBits));
  bits = bits << kPlanBits | ((plan ^ (plan >> 29)) & mask(kPlanBits));
  return bits << kElementBits | (static_cast<uint64_t>(elements) & mask(kElementBits));
}

uint64_t plan_of(std::string_view schedule, int root, std::string_view name) {
  // No text is made of them: this is done in every call.
  return hash(name, (hash(schedule) ^ static_cast<uint64_t>(root)) * 0x100000001b3u);
}

CallFingerprint fingerprint_of(const CollectiveCall& call, std::string_view schedule,
                               std::string_view name) {
  return {.collective = call.collective,
          .op = call.op,
          .dtype = call.dtype,
          .elements = call.elements,
          .plan = plan_of(schedule, call.root, name)};
}

std::string describe_call(uint64_t fingerprint) {
  const auto take = [&](int bits) {
    const uint64_t value = fingerprint & mask(bits);
    fingerprint >>= bits;
    return value;
  };
  const uint64_t elements = take(kElementBits);
  const uint64_t plan = take(kPlanBits);
  const auto dtype = static_cast<c10::ScalarType>(take(kDtypeBits));
  const auto op = static_cast<ReduceOp>(take(kOpBits));
  if (fingerprint > static_cast<uint64_t>(Collective::kBarrier)) return "no collective of strata's";
  const auto collective = static_cast<Collective>(fingerprint);
  if (collective == Collective::kBarrier) return "barrier";
  const bool reduces =
      collective == Collective::kAllReduce || collective == Collective::kReduceScatter;
  char digits[8];
  const auto end = std::to_chars(digits, digits + sizeof digits, plan, 16).ptr;
  return str_cat(collective_name(collective), reduces ? str_cat("(", reduce_op_name(op), ")") : "",
                 " of ", elements, " ", c10::toString(dtype), ", plan ",
                 std::string_view(digits, static_cast<size_t>(end - digits)));
}

std::string with_calls_described(const std::string& text) {
  const std::string before = "fingerprint 0x";
  std::string result;
  size_t copied = 0;
  for (size_t at = text.find(before); at != std::string::npos; at = text.find(before, at + 1)) {
    const size_t first = at + before.size();
    uint64_t value = 0;
    const auto [end, error] =
        std::from_chars(text.data() + first, text.data() + text.size(), value, 16);
    if (error != std::errc()) continue;
    const auto after = static_cast<size_t>(end - text.data());
    result += text.substr(copied, after - copied) + " (" + describe_call(value) + ")";
    copied = after;
  }
  return result + text.substr(copied);
}

}  // namespace strata::collective
