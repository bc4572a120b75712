# Install: apt install ruby-rails ruby-jwt puma (or: gem install rails jwt puma)
# Start: puma --bind tcp://127.0.0.1:3000
require "json"
require "logger"
require "net/http"
require "securerandom"
require "action_controller/railtie"
require "jwt"

ISSUER = ENV.fetch("STATEMENT_ISSUER") # PUBLIC_URL of the gate
AUDIENCE = ENV.fetch("STATEMENT_AUDIENCE") # gate.upstream
KEYS = URI(ENV.fetch("STATEMENT_KEYS")) # http://GATE/.well-known/holdfast-jwks.json

# Two issuers may have the same subject for different people, so only both together say who it is.
Caller = Struct.new(:issuer, :subject)

# The keys of the gate.
class KeyList
  FRESH_SECONDS = 300
  # Anybody can name an unknown key: it has the list read again, but not more often than this.
  PAUSE_SECONDS = 5

  def initialize
    @set = { keys: [] }
    @read_at = -Float::INFINITY
    @lock = Mutex.new
  end

  def set(again:)
    @lock.synchronize do
      now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      read(now) if now - @read_at > (again ? PAUSE_SECONDS : FRESH_SECONDS)
      @set
    end
  end

  private

  def read(now)
    @read_at = now
    answer = Net::HTTP.start(KEYS.host, KEYS.port, use_ssl: KEYS.scheme == "https", open_timeout: 5, read_timeout: 5) { |http| http.get(KEYS.request_uri) }
    answer.value # raises unless it is 200
    @set = JSON.parse(answer.body, symbolize_names: true)
  end
end

module Statement
  KEY_LIST = KeyList.new

  def self.read_caller(statement, method, path)
    keys = ->(options) { KEY_LIST.set(again: options[:kid_not_found]) }
    claims, = JWT.decode(statement, nil, true, algorithms: ["ES256"], jwks: keys, leeway: 5,
      iss: ISSUER, verify_iss: true, aud: AUDIENCE, verify_aud: true, required_claims: %w[exp sub_id])
    raise JWT::DecodeError, "It is about another request" if [claims["method"], claims["path"]] != [method, path]

    Caller.new(*claims["sub_id"].values_at("iss", "sub"))
  end
end

class Upstream < Rails::Application
  config.eager_load = true
  config.logger = Logger.new($stdout)
  config.secret_key_base = SecureRandom.hex(64)
  config.hosts.clear # The gate forwards the host that the client used.
  routes.append { match "/orders/:name", to: "orders#show", via: %i[get post] }
end

class ApplicationController < ActionController::API
  before_action :check_statement

  private

  # request.path may be decoded. request.request_method is what the application acts on: a form can change it by `_method`.
  def check_statement
    path = request.env.fetch("REQUEST_URI").split("?", 2).first
    @caller = Statement.read_caller(request.headers["X-Auth-Statement"].to_s, request.request_method, path)
  rescue JWT::DecodeError => error
    logger.warn("statement refused: #{error.message}")
    head :unauthorized
  end
end

class OrdersController < ApplicationController
  def show
    render json: { issuer: @caller.issuer, subject: @caller.subject, method: request.request_method, order: params[:name] }
  end
end

Upstream.initialize!
run Upstream
