/**
 * The packages that tracing needs. They are larger than all the others together, so only users of tracing install them.
 */
export const TRACING_PACKAGES = ['@fastify/otel', '@opentelemetry/sdk-node', '@opentelemetry/api'] as const

/**
 * Whether the standard OpenTelemetry variables ask for traces: they name an exporter or an endpoint.
 * `OTEL_SDK_DISABLED` and the exporter `none` switch traces off.
 */
export function isTracingAsked (environment: Readonly<Record<string, string | undefined>>): boolean {
  const { OTEL_SDK_DISABLED, OTEL_TRACES_EXPORTER, OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT } =
    environment
  if (OTEL_SDK_DISABLED?.trim().toLowerCase() === 'true' || OTEL_TRACES_EXPORTER?.trim() === 'none') return false
  return Boolean(OTEL_TRACES_EXPORTER || OTEL_EXPORTER_OTLP_ENDPOINT || OTEL_EXPORTER_OTLP_TRACES_ENDPOINT)
}
