# .github/workflows/ci.yml is YAML of the form that GitHub's workflows have, and what it runs exists.
#
# usage: ci_test.rb TREE
require "yaml"

tree = ARGV.fetch(0)
path = File.join(tree, ".github/workflows/ci.yml")
$failures = []
def expect(condition, message)
  $failures << message unless condition
end

workflow = YAML.safe_load(File.read(path))
# YAML 1.1 reads a bare "on" as true.
triggers = workflow["on"] || workflow[true]
expect(triggers.is_a?(Hash) && triggers.key?("push"), "nothing starts it")
expect((workflow.keys - ["name", "on", true, "permissions", "concurrency", "env", "jobs"]).empty?,
       "unknown keys at the top: #{workflow.keys}")
jobs = workflow.fetch("jobs")
expect(jobs.values.map { |job| job["runs-on"] } == ["ubuntu-24.04", "macos-15"],
       "it runs on #{jobs.values.map { |job| job["runs-on"] }}")

jobs.each do |name, job|
  expect((job.keys - %w[runs-on timeout-minutes env steps]).empty?, "#{name}: unknown keys: #{job.keys}")
  steps = job.fetch("steps")
  commands = []
  steps.each do |step|
    said = "#{name}: #{step}"
    expect(step.key?("run") ^ step.key?("uses"), "#{said}: one of run and uses")
    expect((step.keys - %w[name run uses with if env]).empty?, "#{said}: unknown keys")
    if step.key?("uses")
      expect(step["uses"].match?(%r{\A[\w-]+/[\w-]+@v\d+\z}), "#{said}: no version of an action")
    else
      commands += step["run"].lines.map(&:strip)
    end
  end
  scripts = commands.map { |command| command[%r{\A\./(scripts/\S+\.sh)}, 1] }
  expect(scripts == %w[scripts/quickstart.sh scripts/live_test.sh scripts/test.sh],
         "#{name} runs #{commands}")
  scripts.compact.each do |script|
    expect(File.executable?(File.join(tree, script)), "#{name}: there is no program #{script}")
  end
  caches = steps.select { |step| step["uses"].to_s.start_with?("actions/cache@") }
  expect(caches.any? { |step| step.dig("with", "path") == "build/ccache" }, "#{name}: no compiler cache")
  caches.each do |step|
    expect(step.dig("with", "key").to_s != "", "#{name}: a cache without a key")
  end
end
# hashFiles of a file that is not there is "" and would have one key for ever.
File.read(path).scan(/hashFiles\('([^']+)'\)/).flatten.each do |file|
  expect(File.exist?(File.join(tree, file)), "hashFiles of #{file}, which is not there")
end
cache = workflow.dig("env", "CCACHE_DIR")
expect(cache == "${{ github.workspace }}/build/ccache", "CCACHE_DIR is #{cache}")

abort($failures.join("\n")) unless $failures.empty?
