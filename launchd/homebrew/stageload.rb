# The formula, for a tap of one's own: docs/daemon.md says how. It builds the checkout that it lies
# in; a tap that publishes releases puts their `url`, `sha256` and `homepage` in place of `head`.
class Stageload < Formula
  desc "Keeps several ML jobs on one machine from pushing each other into swap"
  license "MIT"
  head "file://#{File.expand_path("../..", File.dirname(File.realpath(__FILE__)))}",
       using: :git, branch: "main"

  depends_on "cli11" => :build
  depends_on "cmake" => :build
  depends_on "nlohmann-json" => :build
  depends_on "pkgconf" => :build
  depends_on "tomlplusplus" => :build
  depends_on "abseil"
  depends_on "grpc"
  depends_on "protobuf"
  depends_on "spdlog"
  depends_on "sqlitecpp"

  uses_from_macos "ncurses"
  uses_from_macos "sqlite"

  def install
    system "cmake", "-S", ".", "-B", "build", "-DSTAGELOAD_TESTS=OFF", *std_cmake_args
    system "cmake", "--build", "build"
    # Manual pages, docs and the completions of zsh and fish come along.
    system "cmake", "--install", "build"
    # macOS's own bash looks for them elsewhere than share/bash-completion.
    generate_completions_from_executable(bin/"stageloadctl", "completion", shells: [:bash])
  end

  # Homebrew's services have no Unix socket, so connects fail while this one restarts; `stageloadctl
  # daemon install` makes a LaunchAgent that has one. Only one of the two may be used.
  service do
    run [opt_bin/"stageloadd", "--service"]
    keep_alive true
    process_type :interactive
    environment_variables PATH: std_service_path_env
    error_log_path var/"log/stageloadd.stderr"
  end

  def caveats
    <<~EOS
      To have the daemon run from each login on, rather than by `brew services`:
        stageloadctl daemon install
    EOS
  end

  test do
    ENV["STAGELOAD_HOME"] = testpath/"home"
    assert_match version.to_s, shell_output("#{bin}/stageloadd --version") unless build.head?
    assert_equal "1\n", shell_output("#{bin}/stageloadctl submit --wait-free 0 -- #{bin}/stageload --help")
    assert_path_exists bin/"stageload-shim"
    assert_path_exists man1/"stageloadctl.1"
    assert_path_exists man5/"stageload-config.5"
    assert_path_exists zsh_completion/"_stageloadctl"
    assert_path_exists bash_completion/"stageloadctl"
    assert_match "status", shell_output("#{bin}/stageloadctl complete-words -- daemon st")
    system bin/"stageloadctl", "wait", "1"
    system bin/"stageloadctl", "daemon", "stop"
  end
end
