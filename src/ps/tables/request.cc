#include "ps/tables/request.h"

#include <bit>
#include <concepts>
#include <type_traits>

#include "core/proto_wire.h"

namespace strata::ps {
namespace {

using strata::detail::WireType;

constexpr strata::detail::WireText kRequestText = {"[ps] request", "a request"};
constexpr strata::detail::WireText kReplyText = {"[ps] reply", "a reply"};

// One list of fields a message, for both directions: calls `visit(number, member)`.

template <typename Message, typename Visit>
void visit_request(Message& request, Visit visit) {
  visit(1, request.kind);
  visit(2, request.id);
  visit(3, request.table);
  visit(4, request.text);
  visit(5, request.flag);
  visit(6, request.slot);
  visit(7, request.rows);
  visit(8, request.data_bytes);
  visit(9, request.step);
  visit(10, request.sequence);
  visit(11, request.learning_rate);
  visit(12, request.weight_decay);
  visit(13, request.clip_value);
  visit(14, request.scale);
  visit(15, request.weight);
  visit(16, request.encoding);
  visit(17, request.memory);
  visit(18, request.on_behalf_of);
  visit(19, request.worker);
}

template <typename Message, typename Visit>
void visit_reply(Message& reply, Visit visit) {
  visit(1, reply.id);
  visit(2, reply.code);
  visit(3, reply.text);
  visit(4, reply.version);
  visit(5, reply.flag);
  visit(6, reply.step);
  visit(7, reply.unreplicated);
  visit(8, reply.promoted);
}

class Put {
 public:
  explicit Put(std::string& out) : out_(out) {}

  void operator()(uint32_t field, const std::string& text) const {
    detail::put_text(field, text, out_);
  }
  void operator()(uint32_t field, double value) const { detail::put_double(field, value, out_); }
  void operator()(uint32_t field, const std::vector<uint64_t>& values) const {
    for (const uint64_t value : values) {
      detail::put_integer(field, static_cast<int64_t>(value), out_);
    }
  }
  template <typename Number>
  void operator()(uint32_t field, Number value) const {
    detail::put_number(field, static_cast<uint64_t>(value), out_);
  }

 private:
  std::string& out_;
};

/// Reads one field into the member that has its number.
class Take {
 public:
  Take(detail::WireReader& reader, uint32_t field, WireType type)
      : reader_(reader), field_(field), type_(type) {}

  template <typename Member>
  void operator()(uint32_t field, Member& member) {
    if (field != field_) return;
    taken_ = true;
    if constexpr (std::same_as<Member, std::string>) {
      member = std::string(reader_.text(type_));
    } else if constexpr (std::same_as<Member, double>) {
      reader_.want(type_, WireType::kFixed64);
      member = std::bit_cast<double>(reader_.fixed<uint64_t>());
    } else if constexpr (std::same_as<Member, std::vector<uint64_t>>) {
      member.push_back(reader_.number(type_));
    } else {
      member = static_cast<Member>(reader_.number(type_));
    }
  }
  bool taken() const { return taken_; }

 private:
  detail::WireReader& reader_;
  uint32_t field_;
  WireType type_;
  bool taken_ = false;
};

template <typename Message, typename VisitFields>
Message decode(std::string_view bytes, const detail::WireText& text, VisitFields visit_fields) {
  Message message;
  detail::WireReader reader(bytes, bytes, text);
  while (!reader.at_end()) {
    WireType type;
    const uint32_t field = reader.field(type);
    Take take(reader, field, type);
    visit_fields(message, [&](uint32_t number, auto& member) { take(number, member); });
    if (!take.taken()) reader.skip(type);  // a later version's
  }
  return message;
}

}  // namespace

std::string encode(const Request& request) {
  std::string out;
  visit_request(request, Put(out));
  return out;
}

std::string encode(const Reply& reply) {
  std::string out;
  visit_reply(reply, Put(out));
  return out;
}

Request decode_request(std::string_view bytes) {
  Request request = decode<Request>(bytes, kRequestText,
                                    [](Request& read, auto visit) { visit_request(read, visit); });
  // A zero is not written, so that it would be read as kCreate the next time.
  STRATA_CHECK(request.kind != RequestKind{}, kDataLoss,
               "[ps] request: got kind 0; expected a kind of RequestKind, which begin at 1; its "
               "bytes are damaged, or the sender is no worker of this version");
  return request;
}

Reply decode_reply(std::string_view bytes) {
  return decode<Reply>(bytes, kReplyText,
                       [](Reply& reply, auto visit) { visit_reply(reply, visit); });
}

}  // namespace strata::ps
