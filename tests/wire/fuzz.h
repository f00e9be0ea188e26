#pragma once

#include <random>
#include <string>

#include "wire/handshake/handshake_message.h"
#include "wire/wires.h"

namespace strata::wire {

inline std::string random_text(size_t size, std::mt19937_64& random) {
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

/// Flips up to four bits.
inline std::string damaged(std::string text, std::mt19937_64& random) {
  const std::string before = text;
  for (uint64_t i = 0; i <= random() % 4; ++i)
    text[random() % text.size()] ^= static_cast<char>(1 << random() % 8);
  return text == before ? "" : text;
}

/// Noise, or what looks like `hello` and is not.
inline std::string almost_a_hello(const std::string& hello, std::mt19937_64& random) {
  switch (random() % 5) {
    case 0:  // noise
      return random_text(random() % 100, random);
    case 1:  // cut short
      return hello.substr(0, random() % hello.size());
    case 2:
      return damaged(hello, random);
    case 3: {  // a right envelope around noise
      const std::string noise = random_text(1 + random() % 60, random);
      std::string refusal = encode_reject({ErrorCode::kAborted, noise});
      return refusal;
    }
    default: {  // another job
      Hello hello = hello_of(0);
      hello.job = random_text(random() % 20, random);
      return encode_hello({.hello = hello, .eager_limit = random(), .eager_budget = random()});
    }
  }
}

}  // namespace strata::wire
