# syntax=docker/dockerfile:1
# The local identity provider of compose.yaml: for trying out, never for production.
FROM node:24.21.0-bookworm-slim
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts && npm cache clean --force
COPY tsconfig.json tsconfig.dev.json ./
COPY dev dev
# The tools that need the service's own code are not used here, so types are not checked.
RUN node_modules/.bin/tsc -p tsconfig.dev.json --noCheck
USER node
EXPOSE 9000
ENTRYPOINT ["node", "dev/start.js", "tenant"]
