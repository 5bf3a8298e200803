import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.AlreadyClosedException;
import com.rabbitmq.client.AuthenticationFailureException;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DeliverCallback;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.LongString;
import com.rabbitmq.client.MessageProperties;
import com.rabbitmq.client.Method;
import com.rabbitmq.client.Recoverable;
import com.rabbitmq.client.RecoveryListener;
import com.rabbitmq.client.Return;
import com.rabbitmq.client.RpcClient;
import com.rabbitmq.client.RpcClientParams;
import com.rabbitmq.client.ShutdownSignalException;
import java.io.IOException;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Date;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * The Java client at work. {@code java Checks URL CHECK} runs one check and ends with status 0 when it holds.
 *
 * <p>Each check makes names of its own; nothing is left behind but what the broker deletes by itself.
 */
public final class Checks {
  private static final int PATIENCE_S = 30;

  private final ConnectionFactory factory = new ConnectionFactory();

  private Checks(String url) throws Exception {
    factory.setUri(url);
    factory.setNetworkRecoveryInterval(200);
  }

  public static void main(String[] arguments) throws Exception {
    Checks checks = new Checks(arguments[0]);
    Checks.class.getDeclaredMethod(arguments[1]).invoke(checks);
    System.exit(0);
  }

  private static void expect(boolean holds, Object said) {
    if (!holds) {
      throw new AssertionError(String.valueOf(said));
    }
  }

  private static String unique(String stem) {
    return stem + "-" + UUID.randomUUID();
  }

  private static <T> T next(BlockingQueue<T> queue) throws InterruptedException {
    T item = queue.poll(PATIENCE_S, TimeUnit.SECONDS);
    expect(item != null, "nothing came within " + PATIENCE_S + " s");
    return item;
  }

  private static BlockingQueue<Delivery> consume(Channel channel, String queue, boolean autoAck) throws IOException {
    BlockingQueue<Delivery> inbox = new LinkedBlockingQueue<>();
    DeliverCallback take = (tag, delivery) -> inbox.add(delivery);
    channel.basicConsume(queue, autoAck, take, tag -> {});
    return inbox;
  }

  private static String text(Delivery delivery) {
    return new String(delivery.getBody());
  }

  void confirms() throws Exception {
    try (Connection connection = factory.newConnection()) {
      Channel channel = connection.createChannel();
      String queue = channel.queueDeclare(unique("queue"), true, false, false, null).getQueue();
      channel.confirmSelect();
      for (int index = 0; index < 500; index++) {
        channel.basicPublish("", queue, MessageProperties.PERSISTENT_BASIC, String.valueOf(index).getBytes());
      }
      channel.waitForConfirmsOrDie(PATIENCE_S * 1000L);
      expect(channel.messageCount(queue) == 500, channel.messageCount(queue));
      channel.basicQos(50);
      BlockingQueue<Delivery> inbox = consume(channel, queue, false);
      for (int index = 0; index < 500; index++) {
        Delivery delivery = next(inbox);
        expect(text(delivery).equals(String.valueOf(index)), text(delivery) + " instead of " + index);
        channel.basicAck(delivery.getEnvelope().getDeliveryTag(), false);
      }
      expect(channel.queueDelete(queue).getMessageCount() == 0, "messages are left");
    }
  }

  void returns() throws Exception {
    try (Connection connection = factory.newConnection()) {
      Channel channel = connection.createChannel();
      BlockingQueue<Return> returned = new LinkedBlockingQueue<>();
      channel.addReturnListener(returned::add);
      channel.confirmSelect();
      channel.basicPublish("", "no-such-queue", true, null, "lost".getBytes());
      expect(channel.waitForConfirms(PATIENCE_S * 1000L), "not confirmed");
      Return message = next(returned);
      expect(message.getReplyCode() == 312 && message.getReplyText().equals("NO_ROUTE"), message.getReplyText());
      expect(new String(message.getBody()).equals("lost"), "another body");
    }
  }

  void nacks() throws Exception {
    try (Connection connection = factory.newConnection()) {
      Channel channel = connection.createChannel();
      Map<String, Object> arguments = Map.of("x-max-length", 1, "x-overflow", "reject-publish");
      String queue = channel.queueDeclare("", false, true, false, arguments).getQueue();
      channel.confirmSelect();
      channel.basicPublish("", queue, null, "1".getBytes());
      expect(channel.waitForConfirms(PATIENCE_S * 1000L), "the first was refused");
      channel.basicPublish("", queue, null, "2".getBytes());
      expect(!channel.waitForConfirms(PATIENCE_S * 1000L), "the second was accepted");
    }
  }

  void workers() throws Exception {
    try (Connection connection = factory.newConnection()) {
      Channel publisher = connection.createChannel();
      String queue = publisher.queueDeclare(unique("tasks"), false, false, true, null).getQueue();
      CountDownLatch left = new CountDownLatch(300);
      for (int worker = 0; worker < 3; worker++) {
        Channel channel = connection.createChannel();
        channel.basicQos(5);
        DeliverCallback work = (tag, delivery) -> {
          channel.basicAck(delivery.getEnvelope().getDeliveryTag(), false);
          left.countDown();
        };
        channel.basicConsume(queue, false, work, tag -> {});
      }
      for (int index = 0; index < 300; index++) {
        publisher.basicPublish("", queue, null, String.valueOf(index).getBytes());
      }
      expect(left.await(PATIENCE_S, TimeUnit.SECONDS), left.getCount() + " tasks were not done");
    }
  }

  void rpc() throws Exception {
    try (Connection connection = factory.newConnection()) {
      Channel server = connection.createChannel();
      String queue = server.queueDeclare("", false, true, false, null).getQueue();
      DeliverCallback serve = (tag, request) -> {
        AMQP.BasicProperties asked = request.getProperties();
        AMQP.BasicProperties answer =
            new AMQP.BasicProperties.Builder().correlationId(asked.getCorrelationId()).build();
        server.basicPublish("", asked.getReplyTo(), answer, text(request).toUpperCase().getBytes());
      };
      server.basicConsume(queue, true, serve, tag -> {});
      Channel channel = connection.createChannel();
      RpcClient client = new RpcClient(new RpcClientParams().channel(channel).exchange("").routingKey(queue));
      for (int index = 0; index < 50; index++) {
        expect(client.stringCall("question " + index).equals("QUESTION " + index), "answer " + index);
      }
      client.close();
    }
  }

  void channelErrors() throws Exception {
    try (Connection connection = factory.newConnection()) {
      Channel channel = connection.createChannel();
      try {
        channel.queueDeclarePassive("missing-queue");
        expect(false, "a missing queue was found");
      } catch (IOException error) {
        Method reason = ((ShutdownSignalException) error.getCause()).getReason();
        expect(((AMQP.Channel.Close) reason).getReplyCode() == 404, reason);
      }
      expect(!channel.isOpen() && connection.isOpen(), "the wrong one was closed");
      try {
        channel.basicQos(1);
        expect(false, "a closed channel was used");
      } catch (AlreadyClosedException expected) {
        connection.createChannel().queueDeclare();
      }
    }
  }

  void connectionErrors() throws Exception {
    Connection connection = factory.newConnection();
    BlockingQueue<ShutdownSignalException> reasons = new LinkedBlockingQueue<>();
    connection.addShutdownListener(reasons::add);
    try {
      connection.createChannel().basicRecover(false);
      expect(false, "recover without requeue was accepted");
    } catch (IOException expected) {
      ShutdownSignalException signal = next(reasons);
      expect(signal.isHardError(), signal);
      expect(((AMQP.Connection.Close) signal.getReason()).getReplyCode() == 540, signal);
    }
    factory.setPassword("wrong");
    try {
      factory.newConnection();
      expect(false, "a wrong password was accepted");
    } catch (AuthenticationFailureException expected) {
      expect(expected.getMessage().contains("ACCESS_REFUSED"), expected.getMessage());
    }
  }

  void cancelNotification() throws Exception {
    try (Connection connection = factory.newConnection()) {
      Channel channel = connection.createChannel();
      String queue = channel.queueDeclare(unique("queue"), false, false, false, null).getQueue();
      BlockingQueue<String> cancelled = new LinkedBlockingQueue<>();
      String tag = channel.basicConsume(queue, true, (consumer, delivery) -> {}, cancelled::add);
      connection.createChannel().queueDelete(queue);
      expect(next(cancelled).equals(tag), "another tag was cancelled");
    }
  }

  void headers() throws Exception {
    try (Connection connection = factory.newConnection()) {
      Channel channel = connection.createChannel();
      String queue = channel.queueDeclare().getQueue();
      Map<String, Object> table = new HashMap<>();
      table.put("bool", true);
      table.put("byte", (byte) -5);
      table.put("short", (short) -300);
      table.put("int", 70_000);
      table.put("long", 1L << 40);
      table.put("float", 0.5f);
      table.put("double", 0.25);
      table.put("decimal", new BigDecimal("12.34"));
      table.put("time", new Date(1_700_000_000_000L));
      table.put("none", null);
      table.put("list", Arrays.asList(1, 2L, true));
      table.put("table", Map.of("deep", Map.of("deeper", true)));
      table.put("octets", new byte[] {0, -1});
      table.put("text", "Grüße");
      AMQP.BasicProperties sent = new AMQP.BasicProperties.Builder().headers(table).deliveryMode(2).priority(3)
          .timestamp(new Date(1_700_000_000_000L)).messageId("i").expiration("60000").build();
      channel.basicPublish("", queue, sent, new byte[0]);
      GetResponse got = channel.basicGet(queue, true);
      expect(got.getBody().length == 0, "a body came from nowhere");
      Map<String, Object> received = new HashMap<>(got.getProps().getHeaders());
      expect(Arrays.equals((byte[]) received.remove("octets"), (byte[]) table.remove("octets")), "octets");
      expect(((LongString) received.remove("text")).toString().equals(table.remove("text")), "text");
      expect(received.equals(table), received + " instead of " + table);
      expect(got.getProps().getTimestamp().equals(sent.getTimestamp()), got.getProps());
      expect(got.getProps().getExpiration().equals("60000"), got.getProps());
    }
  }

  void largeBody() throws Exception {
    try (Connection connection = factory.newConnection()) {
      Channel channel = connection.createChannel();
      String queue = channel.queueDeclare().getQueue();
      byte[] body = new byte[5_000_001];
      new Random(7).nextBytes(body);
      channel.confirmSelect();
      channel.basicPublish("", queue, null, body);
      channel.waitForConfirmsOrDie(PATIENCE_S * 1000L);
      expect(Arrays.equals(channel.basicGet(queue, true).getBody(), body), "other octets came back");
    }
  }

  void transactions() throws Exception {
    try (Connection connection = factory.newConnection()) {
      Channel channel = connection.createChannel();
      String queue = channel.queueDeclare().getQueue();
      channel.txSelect();
      channel.basicPublish("", queue, null, "kept".getBytes());
      channel.txCommit();
      channel.basicPublish("", queue, null, "forgotten".getBytes());
      channel.txRollback();
      GetResponse got = channel.basicGet(queue, true);
      expect(new String(got.getBody()).equals("kept") && got.getMessageCount() == 0, got);
    }
  }

  void heartbeats() throws Exception {
    factory.setRequestedHeartbeat(1);
    factory.setAutomaticRecoveryEnabled(false);
    Connection connection = factory.newConnection();
    CountDownLatch closed = new CountDownLatch(1);
    connection.addShutdownListener(signal -> closed.countDown());
    expect(!closed.await(4, TimeUnit.SECONDS), "the idle connection was closed");
    connection.createChannel().queueDeclare();
    connection.close();
  }

  /** Says "consuming", expects its line to be cut, and goes on with a server-named queue and its consumer. */
  void recovery() throws Exception {
    Connection connection = factory.newConnection();
    Channel channel = connection.createChannel();
    String exchange = unique("exchange");
    channel.exchangeDeclare(exchange, "topic", false, true, null);
    String queue = channel.queueDeclare().getQueue();
    channel.queueBind(queue, exchange, "a.#");
    BlockingQueue<Delivery> inbox = consume(channel, queue, true);
    CountDownLatch recovered = new CountDownLatch(1);
    ((Recoverable) connection).addRecoveryListener(new RecoveryListener() {
      @Override
      public void handleRecovery(Recoverable recoverable) {
        recovered.countDown();
      }

      @Override
      public void handleRecoveryStarted(Recoverable recoverable) {}
    });
    System.out.println("consuming");
    expect(recovered.await(PATIENCE_S, TimeUnit.SECONDS), "not recovered");
    List<String> bodies = new ArrayList<>();
    for (String body : List.of("1", "2", "3")) {
      channel.basicPublish(exchange, "a.b", null, body.getBytes());
      bodies.add(text(next(inbox)));
    }
    expect(bodies.equals(List.of("1", "2", "3")), bodies);
    connection.close();
  }
}
