# syntax=docker/dockerfile:1
FROM node:24.21.0-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts
COPY tsconfig.json tsconfig.build.json app.ts holdfast.ts start-options.ts ./
COPY cli cli
COPY lib lib
COPY plugins plugins
COPY routes routes
COPY schemas schemas
COPY server server
RUN npm run build

FROM node:24.21.0-bookworm-slim AS production
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev --ignore-scripts && npm cache clean --force

FROM node:24.21.0-bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends tini && rm -rf /var/lib/apt/lists/*
ENV NODE_ENV=production
WORKDIR /app
COPY --from=production /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY package.json ./
# docker build --build-arg COMMIT="$(git rev-parse HEAD)": what /health/live tells.
ARG COMMIT=""
ENV HOLDFAST_COMMIT=$COMMIT
LABEL org.opencontainers.image.revision=$COMMIT
# The user node, by number: Kubernetes cannot check whether a name is root.
USER 1000
EXPOSE 8000 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s \
  CMD ["node", "-e", "import('/app/dist/start-options.js').then(({ port, livePath }) => fetch(`http://127.0.0.1:${port}${livePath}`)).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
# :: takes connections over IPv4 too, and gate.grpcPort follows it. A host without IPv6 needs 0.0.0.0.
ENV FASTIFY_ADDRESS=::
# tini as PID 1 reaps zombies and passes on SIGTERM to fastify-cli. npm is not started, because it would not pass it on.
ENTRYPOINT ["tini", "--"]
CMD ["node_modules/.bin/fastify", "start", "-c", "dist/start-options.js", "dist/app.js"]
