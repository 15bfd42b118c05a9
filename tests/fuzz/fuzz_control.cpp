// Any bytes as what somebody writes to the control socket, in pieces, who then ends: the lines are those of the bytes,
// a last one without an end among them; each one is a request whose arguments its chain takes, or an error that can be
// told, on one line, with its id. The first byte names the pieces.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/fuzz/library.h"
#include "tools/chainio-runtime/client.h"
#include "tools/chainio-runtime/request.h"

namespace {

using namespace chainio;
using namespace chainio::runtime_tool;
using fuzz::demand;

constexpr const char* kSpec = R"(
files rows = "*.rows"
files pages = "*.db"
chain row(file: file rows, number: u32, back: i16, name: bytes(max 8)) -> bytes(max 4KiB) hops 1 {
  step s(b: block at number for name.length + back as u64 & 7 in file) { return b }
}
chain two(a: file pages, b: file rows, wide: i64) -> u64 hops 1 {
  step s(x: block at wide as u64 for 8 in a) { return x.uint_le() }
}
chain ahead on read(pages) as r { prefetch r.file at r.offset for 4KiB }
)";

const spec::Loaded& loaded() {
    static const auto made = spec::Loaded::from_artifact(fuzz::Library().lowered("app.chain", kSpec));
    return *made;
}

// A chain takes what it is given.
void check_arguments(const Request& request, const std::vector<OpenFile>& files) {
    const ir::Chain& chain = loaded().module().chains[request.chain];
    demand(chain.mode == ir::ChainMode::call && request.args.size() == chain.params.size(), "arguments are missing");
    for (std::size_t i = 0; i < chain.params.size(); i++) {
        const ir::Param& param = chain.params[i];
        const engine::Argument& given = request.args[i];
        if (param.kind == ir::Param::Kind::bytes) {
            demand(given.kind == engine::Argument::Kind::bytes && given.bytes.size() <= param.max, "too many bytes");
            for (std::size_t k = 0; k < given.bytes.size(); k++)
                demand(given.bytes[k] == request.values[i].bytes[k], "bytes of nobody");
        } else if (param.kind == ir::Param::Kind::scalar) {
            const auto value = static_cast<std::int64_t>(given.value);
            const std::int64_t most =
                param.bits == 64 ? 0 : std::int64_t{1} << (param.bits - (param.is_signed ? 1 : 0));
            demand(param.bits == 64 || (value < most && value >= (param.is_signed ? -most : 0)),
                   "a number is too large");
        } else {
            demand(std::ranges::any_of(files,
                                       [&](const OpenFile& file) {
                                           return file.handle == given.value && file.file_class == param.file_class;
                                       }),
                   "a file of another class");
        }
    }
}

void check_line(const std::string& line) {
    static const std::vector<OpenFile> files = {
        {"/data/a.rows", "a.rows", 0, 0}, {"/data/b.rows", "b.rows", 0, 1}, {"/m\xff.db", "m\xff.db", 1, 2}};
    const auto request = parse_request(line, loaded(), files);
    const nlohmann::json& id = request ? request->id : request.error().id;
    demand(id.is_null() || id.is_string() || id.is_number(), "the id is of another kind");
    if (request && request->op == Op::call) check_arguments(*request, files);
    demand(request || !request.error().message.empty(), "an error without words");
    const std::string said = error_line(id, request ? "" : request.error().message);
    demand(std::ranges::count(said, '\n') == 1 && said.ends_with('\n'), "an answer is more than a line");
    const auto read = nlohmann::json::parse(said, nullptr, false);
    demand(read.is_object() && read.contains("error"), "an answer is no JSON");
    const bool exact = id.is_null() || id.is_string() || id.is_number_integer();
    demand(!exact || read["id"] == id, "an answer to another one");
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::size_t from = 0;
    for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', from)) {
        lines.push_back(text.substr(from, end - from));
        from = end + 1;
    }
    if (from < text.size()) lines.push_back(text.substr(from));
    return lines;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 1) return 0;
    const std::size_t piece = data[0] % 64 + 1;
    const bool at_once = data[0] >= 128;
    const std::string text(data + 1, data + size);
    int ends[2];
    demand(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "no sockets");
    Client client(ends[0]);
    std::vector<std::string> got;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t length = std::min(at_once ? 4096 : piece, text.size() - at);
        demand(write(ends[1], text.data() + at, length) == static_cast<ssize_t>(length), "nothing can be written");
        at += length;
        demand(client.read_some(), "the peer is gone");
        // Now and then lines are left for later.
        if (at_once || at % 3 != 0)
            while (client.has_line()) got.push_back(*client.next_line());
    }
    close(ends[1]);
    demand(client.read_some() && client.closing(), "an end that is none");
    while (client.has_line()) got.push_back(*client.next_line());
    demand(got == lines_of(text), "other lines");
    for (const std::string& line : got) check_line(line);
    return 0;
}
