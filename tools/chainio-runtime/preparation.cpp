#include "tools/chainio-runtime/preparation.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cassert>
#include <new>
#include <system_error>
#include <utility>

namespace chainio::runtime_tool {

namespace {

// What serves goes on when there is no memory for what is to take its place.
template <typename Body>
auto with_memory(Body body) -> decltype(body()) {
    try {
        return body();
    } catch (const std::bad_alloc&) {
        return std::unexpected(Problem{kExitSystem, "there is no memory for another edition beside the one that runs"});
    }
}

}  // namespace

std::expected<Prepared, Problem> prepare(const Options& options, std::shared_ptr<const spec::Loaded> loaded) {
    return with_memory([&]() -> std::expected<Prepared, Problem> {
        if (loaded == nullptr) {
            auto read = load(options);
            if (!read) return std::unexpected(read.error());
            loaded = std::move(*read);
        }
        ask_for_files(options, loaded->module());
        auto memory = engine::Engine::make_memory(*loaded, engine_options(options, loaded->module(), nullptr));
        if (!memory) return std::unexpected(Problem{kExitSystem, memory.error()});
        return Prepared{std::move(loaded), std::move(*memory)};
    });
}

std::expected<std::unique_ptr<Edition>, Problem> complete(const Options& options, Prepared prepared, ring::Shared* ring,
                                                          bool serving) {
    return with_memory([&]() -> std::expected<std::unique_ptr<Edition>, Problem> {
        auto made = make_edition(options, std::move(prepared.loaded), ring, std::move(prepared.memory));
        if (!made) return made;
        if (serving)
            service::place_outside((*made)->loaded->module(), "a reload puts nothing inside the kernel; start again",
                                   (*made)->plan);
        if (auto opened = open_edition(options, **made); !opened) return std::unexpected(opened.error());
        return made;
    });
}

std::unique_ptr<Preparation> Preparation::begin(const Options& options, std::shared_ptr<const spec::Loaded> loaded) {
    const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0) return nullptr;
    std::unique_ptr<Preparation> made(new Preparation(fd));
    try {
        made->thread_ = std::thread(&Preparation::run, made.get(), std::cref(options), std::move(loaded));
    } catch (const std::system_error&) {
        return nullptr;
    }
    return made;
}

Preparation::~Preparation() {
    if (thread_.joinable()) thread_.join();
    close(fd_);
}

void Preparation::run(const Options& options, std::shared_ptr<const spec::Loaded> loaded) {
    pthread_setname_np(pthread_self(), "chainio-edition");
    result_.emplace(prepare(options, std::move(loaded)));
    done_.store(true, std::memory_order_release);
    const std::uint64_t one = 1;
    // An eventfd takes a first number always; whoever waits looks at done_.
    (void)!write(fd_, &one, sizeof one);
}

std::expected<Prepared, Problem> Preparation::take() {
    assert(is_done());
    thread_.join();
    return std::move(*result_);
}

}  // namespace chainio::runtime_tool
