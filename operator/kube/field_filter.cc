#include "operator/kube/field_filter.h"

#include <fmt/format.h>

#include <array>

#include "operator/base/status_macros.h"

namespace trainyard::control {
namespace {

constexpr int kMaxDepth = 100;

// The meanings of a byte outside of strings.
enum class Class : unsigned char { kOther, kOpen, kClose, kQuote };

constexpr std::array<Class, 256> MakeClasses() {
  std::array<Class, 256> classes{};
  classes['{'] = classes['['] = Class::kOpen;
  classes['}'] = classes[']'] = Class::kClose;
  classes['"'] = Class::kQuote;
  return classes;
}
constexpr std::array<Class, 256> kClasses = MakeClasses();

// Of any object: its identity, its owner and its deletion; of a Status: reason and message.
constexpr std::string_view kAlwaysRead[] = {"apiVersion",
                                            "kind",
                                            "metadata.name",
                                            "metadata.namespace",
                                            "metadata.uid",
                                            "metadata.resourceVersion",
                                            "metadata.generation",
                                            "metadata.creationTimestamp",
                                            "metadata.deletionTimestamp",
                                            "metadata.deletionGracePeriodSeconds",
                                            "metadata.finalizers",
                                            "metadata.labels",
                                            "metadata.ownerReferences.kind",
                                            "metadata.ownerReferences.name",
                                            "metadata.ownerReferences.uid",
                                            "metadata.ownerReferences.controller",
                                            "code",
                                            "reason",
                                            "message",
                                            "details"};

}  // namespace

// One pass over one text.
class FieldFilter::Scanner {
 public:
  Scanner(std::string_view text, size_t enough) : text_(text), enough_(enough) {}

  absl::Status Run(const Node& root, std::string& out) {
    SkipSpace();
    if (At() != '{') return Bad("expected an object");
    TY_RETURN_IF_ERROR(Object(root, out, 1));
    if (HasEnough()) return absl::OkStatus();
    SkipSpace();
    return at_ == text_.size() ? absl::OkStatus() : Bad("text after the object");
  }

 private:
  absl::Status Bad(std::string_view problem) const {
    return absl::InvalidArgumentError(fmt::format("not valid JSON at byte {}: {}", at_, problem));
  }

  bool HasEnough() const { return enough_ != 0 && found_ >= enough_; }

  char At() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void SkipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) ++at_;
  }

  // From the opening quote to behind the closing one: a quote after an even number of backslashes.
  absl::Status SkipString() {
    const size_t begin = at_ + 1;
    for (size_t from = begin;;) {
      const size_t quote = text_.find('"', from);
      if (quote == std::string_view::npos) break;
      size_t backslashes = 0;
      while (quote - backslashes > begin && text_[quote - backslashes - 1] == '\\') ++backslashes;
      from = quote + 1;
      if (backslashes % 2 == 0) {
        at_ = from;
        return absl::OkStatus();
      }
    }
    at_ = text_.size();
    return Bad("a string without end");
  }

  absl::Status SkipValue() {
    SkipSpace();
    if (At() == '"') return SkipString();
    if (kClasses[static_cast<unsigned char>(At())] != Class::kOpen) {
      while (at_ < text_.size() && std::string_view(",]} \n\t\r").find(text_[at_]) == std::string_view::npos) ++at_;
      return absl::OkStatus();
    }
    int depth = 0;
    while (at_ < text_.size()) {
      switch (kClasses[static_cast<unsigned char>(text_[at_])]) {
        case Class::kOther:
          ++at_;
          continue;
        case Class::kQuote:
          TY_RETURN_IF_ERROR(SkipString());
          continue;
        case Class::kOpen:
          if (++depth > kMaxDepth) return Bad("nested too deeply");
          break;
        case Class::kClose:
          --depth;
          break;
      }
      ++at_;
      if (depth == 0) return absl::OkStatus();
    }
    return Bad("the text ends too early");
  }

  // Copies as it stands what holds nothing to be dropped.
  absl::Status Value(const Node* node, std::string& out, int depth) {
    SkipSpace();
    if (depth > kMaxDepth) return Bad("nested too deeply");
    const bool filtered = node != nullptr && !node->fields.empty();
    if (filtered && At() == '{') return Object(*node, out, depth);
    if (filtered && At() == '[') return Array(*node, out, depth);
    const size_t begin = at_;
    TY_RETURN_IF_ERROR(SkipValue());
    out.append(text_, begin, at_ - begin);
    return absl::OkStatus();
  }

  absl::Status Object(const Node& node, std::string& out, int depth) {
    out += '{';
    ++at_;
    bool first = true;
    for (SkipSpace(); At() != '}'; SkipSpace()) {
      if (At() != '"') return Bad("expected a field's name");
      const size_t begin = at_;
      TY_RETURN_IF_ERROR(SkipString());
      const std::string_view quoted = text_.substr(begin, at_ - begin);
      const std::string_view name = quoted.substr(1, quoted.size() - 2);
      SkipSpace();
      if (At() != ':') return Bad("expected ':'");
      ++at_;
      const Node* const next = node.Find(name);
      if (next == nullptr ? node.only_listed : next->drop) {
        TY_RETURN_IF_ERROR(SkipValue());
      } else {
        if (!first) out += ',';
        first = false;
        out += quoted;
        out += ':';
        SkipSpace();
        TY_RETURN_IF_ERROR(Value(next, out, depth + 1));
        if (next != nullptr && next->fields.empty()) ++found_;
        if (HasEnough()) {
          out += '}';
          return absl::OkStatus();
        }
      }
      SkipSpace();
      if (At() != ',') break;
      ++at_;
      SkipSpace();
      if (At() == '}') return Bad("expected a field after ','");
    }
    if (At() != '}') return Bad("expected ',' or '}'");
    ++at_;
    out += '}';
    return absl::OkStatus();
  }

  // Calls `element` at each element of the array that begins here.
  template <typename Element>
  absl::Status Elements(const Element& element) {
    ++at_;
    for (SkipSpace(); At() != ']'; SkipSpace()) {
      TY_RETURN_IF_ERROR(element());
      SkipSpace();
      if (At() != ',') break;
      ++at_;
      SkipSpace();
      if (At() == ']') return Bad("expected an element after ','");
    }
    if (At() != ']') return Bad("expected ',' or ']'");
    ++at_;
    return absl::OkStatus();
  }

  absl::Status Array(const Node& node, std::string& out, int depth) {
    out += '[';
    bool first = true;
    TY_RETURN_IF_ERROR(Elements([&] {
      if (!first) out += ',';
      first = false;
      return Value(&node, out, depth + 1);
    }));
    out += ']';
    return absl::OkStatus();
  }

  const std::string_view text_;
  const size_t enough_;
  size_t found_ = 0;
  size_t at_ = 0;
};

FieldFilter::Node* FieldFilter::Node::Find(std::string_view name) const {
  for (const auto& [field, node] : fields) {
    if (field == name) return node.get();
  }
  return nullptr;
}

FieldFilter::Node& FieldFilter::Node::At(std::string_view name) {
  if (Node* const node = Find(name)) return *node;
  return *fields.emplace_back(std::string(name), std::make_unique<Node>()).second;
}

FieldFilter::FieldFilter(const ReadFields& fields, Where where) {
  Node& object = where == Where::kObject ? root_ : root_.At("object");
  if (!fields.has_value()) {
    object.At("metadata").At("managedFields").drop = true;
    return;
  }
  for (const std::string_view path : kAlwaysRead) Keep(object, path);
  for (const std::string& path : *fields) Keep(object, path);
}

FieldFilter FieldFilter::OfEventsThatTellOfAnEnd() {
  FieldFilter filter;
  for (const std::string_view path : {"metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion"}) {
    Keep(filter.root_.At("object"), path);
    ++filter.enough_;
  }
  return filter;
}

void FieldFilter::Keep(Node& object, std::string_view path) {
  Node* node = &object;
  while (true) {
    const size_t dot = path.find('.');
    node->only_listed = true;
    node = &node->At(path.substr(0, dot));
    if (dot == std::string_view::npos) break;
    path.remove_prefix(dot + 1);
  }
}

absl::Status FieldFilter::Apply(std::string_view text, std::string& out) const { return Scanner(text, enough_).Run(root_, out); }

}  // namespace trainyard::control
