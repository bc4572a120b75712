/** The packages that tracing needs. They weigh more than all the others together, so that only who traces installs them. */
export const TRACING_PACKAGES = ['@fastify/otel', '@opentelemetry/sdk-node', '@opentelemetry/api'] as const

/**
 * Whether the standard OpenTelemetry variables ask for traces: an exporter is named, or an endpoint to export to. `OTEL_SDK_DISABLED`
 * and an exporter of `none` say no.
 */
export function isTracingAsked (environment: Readonly<Record<string, string | undefined>>): boolean {
  const { OTEL_SDK_DISABLED, OTEL_TRACES_EXPORTER, OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT } = environment
  if (OTEL_SDK_DISABLED?.trim().toLowerCase() === 'true' || OTEL_TRACES_EXPORTER?.trim() === 'none') return false
  return Boolean(OTEL_TRACES_EXPORTER || OTEL_EXPORTER_OTLP_ENDPOINT || OTEL_EXPORTER_OTLP_TRACES_ENDPOINT)
}
