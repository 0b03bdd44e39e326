// IDX bytes for tests, well-formed unless told otherwise.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "trainer/data/formats/idx.h"

namespace trainyard::engine {

class IdxMaker {
 public:
  IdxMaker& Type(IdxType type) {
    type_ = static_cast<char>(type);
    return *this;
  }
  IdxMaker& Axes(std::initializer_list<uint32_t> extents) {
    axes_.clear();
    for (uint32_t extent : extents) {
      for (int shift = 24; shift >= 0; shift -= 8) axes_ += static_cast<char>(extent >> shift);
    }
    return *this;
  }
  IdxMaker& Data(std::string_view data) {
    data_ = data;
    return *this;
  }
  std::string Make() const { return std::string(2, '\0') + type_ + static_cast<char>(axes_.size() / 4) + axes_ + data_; }

 private:
  char type_ = static_cast<char>(IdxType::kU8);
  std::string axes_;
  std::string data_;
};

}  // namespace trainyard::engine
