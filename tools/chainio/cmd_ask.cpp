// `chainio ask SOCKET SERVICE REQUEST`: a request to a service of a running chainio-runtime, over shared memory.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "tools/chainio/ask_run.h"
#include "tools/chainio/commands.h"
#include "tools/chainio/named.h"
#include "tools/chainio/printed.h"
#include "tools/chainio/whole.h"

namespace chainio::tool {
namespace {

constexpr const char* kAskFooter =
    R"(REQUEST is text with the escapes \t, \n, \r, \0, \xHH and \\, or hex:00ff, or text:… without any escapes; - takes the
bytes of standard input as they are. It is what a client would send to the service's udp endpoint as one datagram.
With --lines each line of standard input is a REQUEST; a line of output is the input line, ok or unanswered, and the reply,
separated by tabs, in the order of the input.
Exit code: 0 all were answered; 1 one was not, or the input is wrong; 2 usage; 3 the server or the system failed.)";

}  // namespace

void add_ask(CLI::App& root, int& exit_code) {
    struct Parsed {
        AskOptions options;
        std::string output = "text";
    };
    auto parsed = std::make_shared<Parsed>();
    auto* command = root.add_subcommand("ask", "Ask a service of a running chainio-runtime over shared memory");
    command->footer(kAskFooter);
    AskOptions& options = parsed->options;
    command->add_option("socket", options.path, "what chainio-runtime got as --rings")->required()->check(no_name);
    command->add_option("service", options.service, "its name in the spec")->required()->check(no_name);
    auto* request = command->add_option("request", options.request, "what is asked; -: the bytes of standard input");
    auto* lines = command->add_flag("--lines", options.lines, "each line of standard input is a request");
    lines->excludes(request);
    command->add_option("--in-flight", options.in_flight, "requests at once (default 1; 64 with --lines)")
        ->transform(Whole(1, 1024));
    command->add_option("--timeout-ms", options.timeout_ms, "milliseconds to wait for the server, and for a reply")
        ->transform(Whole(1, 3'600'000))
        ->capture_default_str();
    command->add_option("--spin", options.spin_us, "microseconds that it looks for replies before it sleeps")
        ->transform(Whole(0, 1'000'000));
    command->add_option("--output", parsed->output, "raw, hex or text")->check(CLI::IsMember({"raw", "hex", "text"}));
    command->add_flag("--json", options.json, "one JSON object a reply");
    command->callback([parsed, request, &exit_code] {
        AskOptions& chosen = parsed->options;
        exit_code = kExitUsage;
        if (request->count() == 0 && !chosen.lines) {
            say("chainio ask: a request is wanted: text, hex:00ff, - for standard input, or --lines for many\n");
            return;
        }
        chosen.output = parsed->output == "raw" ? Output::raw : parsed->output == "hex" ? Output::hex : Output::text;
        exit_code = run_ask(chosen);
    });
}

}  // namespace chainio::tool
